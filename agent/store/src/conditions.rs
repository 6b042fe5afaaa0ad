//! What rows are asked for, as SQL: every value is bound, none is part of the text.

use mcpwarden_policy::{Timestamp, event::Severity};
use rusqlite::{Connection, params_from_iter, types::Value};

use super::integer;

/// Conditions that all hold, on the columns of `events` or of a view of it.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    parts: Vec<String>,
    values: Vec<Value>,
}

impl Conditions {
    /// A column has one of these values; none named is any.
    #[must_use]
    pub fn any(mut self, column: &str, wanted: &[impl AsRef<str>]) -> Self {
        let values = wanted.iter().map(|text| Value::Text(text.as_ref().to_owned())).collect();
        self.one_of(column, values);
        self
    }

    /// A column of severities has at least this one; those that are neither good nor bad have none.
    #[must_use]
    pub fn at_least(mut self, column: &str, least: Option<Severity>) -> Self {
        // Every severity is named, since an index finds each of a few values in the order of time.
        let worse =
            least.map(|least| (least as i64..=Severity::Critical as i64).map(Value::Integer).collect());
        self.one_of(column, worse.unwrap_or_default());
        self
    }

    /// A column of times is not before the one and before the other.
    #[must_use]
    pub fn between(mut self, column: &str, since: Option<Timestamp>, until: Option<Timestamp>) -> Self {
        for (comparison, time) in [(">=", since), ("<", until)] {
            if let Some(time) = time {
                let place = self.place(Value::Integer(integer(time.0)));
                self.parts.push(format!("{column} {comparison} {place}"));
            }
        }
        self
    }

    /// This holds, too: SQL that is ours.
    #[must_use]
    pub fn holds(mut self, sql: &str) -> Self {
        self.parts.push(sql.to_owned());
        self
    }

    /// ` WHERE …`, or nothing where there is no condition.
    pub fn sql(&self) -> String {
        if self.parts.is_empty() { String::new() } else { format!(" WHERE {}", self.parts.join(" AND ")) }
    }

    /// What is bound to the places of [`sql`](Self::sql).
    pub fn values(&self) -> impl rusqlite::Params {
        params_from_iter(self.values.clone())
    }

    /// Numbers of the last so many events (`None`: all) of `events` or a view of it, by time.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn last(&self, db: &Connection, view: &str, limit: Option<u64>) -> rusqlite::Result<Vec<i64>> {
        // Found from the end, and then turned round.
        let (sql, limit) = (self.sql(), limit.map_or(-1, integer));
        let sql = format!("SELECT seq FROM {view}{sql} ORDER BY time_ns DESC, seq DESC LIMIT {limit}");
        let mut find = db.prepare(&sql)?;
        let found = find.query_map(self.values(), |row| row.get(0))?;
        let mut found: Vec<i64> = found.collect::<Result<_, _>>()?;
        found.reverse();
        Ok(found)
    }

    fn one_of(&mut self, column: &str, wanted: Vec<Value>) {
        if !wanted.is_empty() {
            let places: Vec<String> = wanted.into_iter().map(|value| self.place(value)).collect();
            self.parts.push(format!("{column} IN ({})", places.join(", ")));
        }
    }

    fn place(&mut self, value: Value) -> String {
        self.values.push(value);
        format!("?{}", self.values.len())
    }
}
