//! The pinned clock, and Python's strftime in the C locale.

use super::Error;

pub struct Clock {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micro: i64,
}

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Clock {
    /// "2026-07-01", "2026-07-01T12:30", "2026-07-01 12:30:00.5", with or without a zone, which changes nothing.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = || Error::new(format!("the clock '{text}' is no ISO time such as 2026-07-01T12:30:00"));
        let text = text.trim();
        let (date, time) = match text.find(['T', 't', ' ']) {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (text, "00:00:00"),
        };
        let time = time.trim_end_matches(['Z', 'z']);
        let time = &time[..time.find(['+', '-']).unwrap_or(time.len())];
        let number = |part: &str, width: usize| {
            let digits = part.len() == width && part.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| part.parse::<i64>().ok()).flatten().ok_or_else(wrong)
        };
        let date: Vec<&str> = date.split('-').collect();
        let [year, month, day] = date[..] else { return Err(wrong()) };
        let (whole, fraction) = time.split_once('.').unwrap_or((time, ""));
        let parts: Vec<&str> = whole.split(':').collect();
        let (hour, minute, second) = match parts[..] {
            [h, m] => (h, m, "00"),
            [h, m, s] => (h, m, s),
            _ => return Err(wrong()),
        };
        let micro = format!("{fraction:0<6}");
        let clock = Clock {
            year: number(year, 4)?,
            month: number(month, 2)?,
            day: number(day, 2)?,
            hour: number(hour, 2)?,
            minute: number(minute, 2)?,
            second: number(second, 2)?,
            micro: number(micro.get(..6).ok_or_else(wrong)?, 6)?,
        };
        let valid = clock.year > 0
            && (1..=12).contains(&clock.month)
            && (1..=days_in(clock.year, clock.month)).contains(&clock.day)
            && clock.hour < 24
            && clock.minute < 60
            && clock.second < 60;
        if valid {
            Ok(clock)
        } else {
            Err(wrong())
        }
    }

    fn day_of_year(&self) -> i64 {
        (1..self.month).map(|m| days_in(self.year, m)).sum::<i64>() + self.day
    }

    /// Days since 1970-01-01.
    fn days(&self) -> i64 {
        let before = self.year - 1;
        before * 365 + before / 4 - before / 100 + before / 400 - 719_162 + self.day_of_year() - 1
    }

    /// 0 is Sunday.
    fn weekday(&self) -> i64 {
        (self.days() + 4).rem_euclid(7)
    }

    /// ISO 8601's year and week.
    fn iso_week(&self) -> (i64, i64) {
        let monday_first = (self.weekday() + 6) % 7;
        let week = (self.day_of_year() - 1 - monday_first + 10) / 7;
        let weeks_of = |year: i64| {
            let first = Clock { year, month: 1, day: 1, hour: 0, minute: 0, second: 0, micro: 0 }.weekday();
            52 + i64::from(first == 4 || (first == 3 && is_leap(year)))
        };
        if week < 1 {
            (self.year - 1, weeks_of(self.year - 1))
        } else if week > weeks_of(self.year) {
            (self.year + 1, 1)
        } else {
            (self.year, week)
        }
    }
}

pub fn format(clock: &Clock, layout: &str) -> String {
    let mut out = String::new();
    let mut chars = layout.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let flag = chars.next_if(|c| matches!(c, '-' | '_' | '0' | '^' | '#'));
        let Some(kind) = chars.next() else {
            out.push('%');
            break;
        };
        directive(clock, flag, kind, &mut out);
    }
    out
}

fn directive(clock: &Clock, flag: Option<char>, kind: char, out: &mut String) {
    let number = |value: i64, width: usize, fill: char| match flag.unwrap_or(fill) {
        '-' => value.to_string(),
        '_' | ' ' => format!("{value:>width$}"),
        _ => format!("{value:0width$}"),
    };
    let weekday = DAYS[clock.weekday() as usize];
    let month = MONTHS[(clock.month - 1) as usize];
    let twelve = (clock.hour + 11) % 12 + 1;
    let text = match kind {
        'a' => weekday[..3].to_string(),
        'A' => weekday.to_string(),
        'b' | 'h' => month[..3].to_string(),
        'B' => month.to_string(),
        'c' => format(clock, "%a %b %e %H:%M:%S %Y"),
        'C' => number(clock.year / 100, 2, '0'),
        'd' => number(clock.day, 2, '0'),
        'D' | 'x' => format(clock, "%m/%d/%y"),
        'e' => number(clock.day, 2, ' '),
        'f' => format!("{:06}", clock.micro),
        'F' => format(clock, "%Y-%m-%d"),
        'g' => number(clock.iso_week().0 % 100, 2, '0'),
        'G' => clock.iso_week().0.to_string(),
        'H' => number(clock.hour, 2, '0'),
        'I' => number(twelve, 2, '0'),
        'j' => number(clock.day_of_year(), 3, '0'),
        'k' => number(clock.hour, 2, ' '),
        'l' => number(twelve, 2, ' '),
        'm' => number(clock.month, 2, '0'),
        'M' => number(clock.minute, 2, '0'),
        'n' => "\n".to_string(),
        'p' => if clock.hour < 12 { "AM" } else { "PM" }.to_string(),
        'P' => if clock.hour < 12 { "am" } else { "pm" }.to_string(),
        'r' => format(clock, "%I:%M:%S %p"),
        'R' => format(clock, "%H:%M"),
        's' => (clock.days() * 86_400 + clock.hour * 3600 + clock.minute * 60 + clock.second).to_string(),
        'S' => number(clock.second, 2, '0'),
        't' => "\t".to_string(),
        'T' | 'X' => format(clock, "%H:%M:%S"),
        'u' => (if clock.weekday() == 0 { 7 } else { clock.weekday() }).to_string(),
        'U' => number((clock.day_of_year() + 6 - clock.weekday()) / 7, 2, '0'),
        'V' => number(clock.iso_week().1, 2, '0'),
        'w' => clock.weekday().to_string(),
        'W' => number((clock.day_of_year() + 6 - (clock.weekday() + 6) % 7) / 7, 2, '0'),
        'y' => number(clock.year % 100, 2, '0'),
        'Y' => clock.year.to_string(),
        // The clock has no zone.
        'z' | 'Z' => String::new(),
        '%' => "%".to_string(),
        other => match flag {
            Some(flag) => format!("%{flag}{other}"),
            None => format!("%{other}"),
        },
    };
    match flag {
        Some('^') => out.push_str(&text.to_uppercase()),
        Some('#') if kind == 'p' => out.push_str(&text.to_lowercase()),
        Some('#') => out.push_str(&text.to_uppercase()),
        _ => out.push_str(&text),
    }
}
