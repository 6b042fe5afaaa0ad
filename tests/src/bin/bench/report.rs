//! How figures are shown.

/// A title.
pub fn heading(text: &str) {
    println!("\n{text}");
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}

/// The value at `share` (0 to 1) of the sorted values; 0 where there are none.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let values = sorted(values);
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * share).round() as usize).copied().unwrap_or(0.0)
}

/// The chance that an interval of [`interval`] does not hold the true median, at most.
const MISTAKES: f64 = 0.05;

/// A confidence interval of the median: of so few values that there is none, all of them.
///
/// Between two of the sorted values, whatever these are distributed as: the median is below the `k`th smallest of `n` with the
/// chance that fewer than `k` throws of `n` are heads, and above the `k`th largest with the same.
pub fn interval(values: &[f64]) -> (f64, f64) {
    let values = sorted(values);
    // How likely no throw of all is heads, then one, and so on.
    let mut chance = 0.5_f64.powi(values.len() as i32);
    let (mut below, mut index) = (0.0, 0);
    for heads in 0..values.len() / 2 {
        below += chance;
        if 2.0 * below > MISTAKES {
            break;
        }
        index = heads;
        chance *= (values.len() - heads) as f64 / (heads + 1) as f64;
    }
    let at = |index: usize| values.get(index).copied().unwrap_or(0.0);
    (at(index), at(values.len().saturating_sub(index + 1)))
}

/// Median of the rounds' ratios with its [`interval`], the medians behind them, the target, and whether it was met: where the
/// interval holds the target, nobody can tell.
pub fn ratio(name: &str, unloaded: &[f64], loaded: &[f64], target: f64) {
    let ratios: Vec<f64> = unloaded.iter().zip(loaded).map(|(base, with)| with / base).collect();
    let (least, most) = interval(&ratios);
    let verdict = if most <= target {
        "held"
    } else if least > target {
        "missed"
    } else {
        "within the interval"
    };
    println!(
        "  {name:<18} {:>6.3}× ({least:.3} to {most:.3})   {:>7.0} → {:>7.0} ns   target {target:.2}×: {verdict}",
        quantile(&ratios, 0.5),
        quantile(unloaded, 0.5),
        quantile(loaded, 0.5),
    );
}

/// Quantiles of latencies in milliseconds.
pub fn latency(millis: &[f64]) {
    println!(
        "  p50 {:.2} ms   p99 {:.2} ms   largest {:.2} ms   ({} calls)   target: p99 20 ms",
        quantile(millis, 0.5),
        quantile(millis, 0.99),
        quantile(millis, 1.0),
        millis.len()
    );
}
