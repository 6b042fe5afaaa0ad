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

/// Median of the rounds' ratios with their spread, the medians behind them, and the target.
pub fn ratio(name: &str, unloaded: &[f64], loaded: &[f64], target: f64) {
    let ratios: Vec<f64> = unloaded.iter().zip(loaded).map(|(base, with)| with / base).collect();
    println!(
        "  {name:<18} {:>5.2}× ({:.2} to {:.2})   {:>7.0} → {:>7.0} ns   target {target:.2}×",
        quantile(&ratios, 0.5),
        quantile(&ratios, 0.0),
        quantile(&ratios, 1.0),
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
