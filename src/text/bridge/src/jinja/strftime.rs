//! strftime_now(): the pinned clock, printed as Python's strftime does in the C locale.

use jiff::civil::DateTime;
use jiff::fmt::strtime::{BrokenDownTime, Config, PosixCustom};

pub struct Clock(DateTime);

impl Clock {
    /// "2026-07-01", "2026-07-01T12:30", "2026-07-01 12:30:00.5", with or without a zone, which changes nothing.
    pub fn parse(text: &str) -> Result<Self, String> {
        let tidy = text.trim().trim_end_matches(['Z', 'z']);
        let time =
            tidy.parse().map_err(|_| format!("the clock '{text}' is no ISO time such as 2026-07-01T12:30:00"))?;
        Ok(Clock(time))
    }

    /// What is no directive stays as it is, and a clock without a zone prints none.
    pub fn format(&self, layout: &str) -> Result<String, String> {
        let layout = layout.replace("%Z", "").replace("%z", "").replace("%f", "%6f");
        let config = Config::new().custom(PosixCustom::new()).lenient(true);
        let printed = BrokenDownTime::from(self.0).to_string_with_config(&config, &layout);
        printed.map_err(|e| format!("strftime_now: {e}"))
    }
}
