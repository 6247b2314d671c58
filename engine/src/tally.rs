//! What the engine tells while it runs, and at the end: the members of `pgdyno.trace.engine.tally.RunTally`.

use crate::json::write_text;
use std::fmt::Write;

const MOST_REASONS: usize = 20;
const LONGEST_REASON: usize = 1000;

#[derive(Default)]
pub struct Tally {
    pub at_us: i64,
    pub sent: u64,
    pub done: u64,
    pub errors: u64,
    pub skipped: u64,
    pub open_sessions: u64,
    pub not_opened: u64,
    pub lost_sessions: u64,
    pub cancelled: u64,
    pub stalls: u64,
    pub keys_learned: u64,
    pub keys_sent: u64,
    pub keys_unknown: u64,
    pub late_us: i64,
    pub cpu_s: f64,
    pub reasons: Vec<(String, u64)>,
    /// Begin, end (-1: it lasts), and the sessions that are at something in it, or were at its end.
    pub pauses: Vec<[i64; 3]>,
    pub ended: String,
}

impl Tally {
    /// Count a reason; of more kinds than are kept, what is left is one kind.
    pub fn because(&mut self, reason: &str) {
        let cut: String = reason.chars().take(LONGEST_REASON).collect();
        let is_known = self.reasons.iter().any(|(known, _)| *known == cut);
        let name = if is_known || self.reasons.len() < MOST_REASONS { cut } else { "other reasons".into() };
        match self.reasons.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => self.reasons.push((name, 1)),
        }
    }

    /// Return a line of JSON.
    pub fn line(&self) -> String {
        let mut out = String::with_capacity(512);
        let counts = [
            ("sent", self.sent),
            ("done", self.done),
            ("errors", self.errors),
            ("skipped", self.skipped),
            ("open_sessions", self.open_sessions),
            ("not_opened", self.not_opened),
            ("lost_sessions", self.lost_sessions),
            ("cancelled", self.cancelled),
            ("stalls", self.stalls),
            ("keys_learned", self.keys_learned),
            ("keys_sent", self.keys_sent),
            ("keys_unknown", self.keys_unknown),
        ];
        let _ = write!(out, "{{\"at_us\": {}", self.at_us);
        for (name, count) in counts {
            let _ = write!(out, ", \"{name}\": {count}");
        }
        let _ = write!(out, ", \"late_us\": {}, \"cpu_s\": {:.6}, \"reasons\": {{", self.late_us, self.cpu_s);
        for (number, (reason, count)) in self.reasons.iter().enumerate() {
            out.push_str(if number > 0 { ", " } else { "" });
            write_text(&mut out, reason);
            let _ = write!(out, ": {count}");
        }
        let _ = write!(out, "}}, \"pauses\": {:?}, \"ended\": ", self.pauses);
        write_text(&mut out, &self.ended);
        out.push_str("}\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{read, Json};

    #[test]
    fn a_line_is_one_of_json_with_few_reasons() {
        let pauses = vec![[-5, 7, 1], [9, -1, 0]];
        let mut tally = Tally { at_us: -5, pauses, ended: "complete".into(), ..Tally::default() };
        for number in 0..30 {
            tally.because(&format!("\"{number}\"\n{}", "ü".repeat(5000)));
        }
        let line = tally.line();
        assert_eq!(line.matches('\n').count(), 1);
        let Ok(Json::Object(members)) = read(line.trim_end()) else { panic!("{line}") };
        assert_eq!(members[0], ("at_us".into(), Json::Number(-5.0)));
        assert!(line.contains("\"pauses\": [[-5, 7, 1], [9, -1, 0]], \"ended\": \"complete\""), "{line}");
        let Json::Object(reasons) = &members[15].1 else { panic!("{line}") };
        assert_eq!((reasons.len(), &reasons[20].1), (21, &Json::Number(10.0)));
    }
}
