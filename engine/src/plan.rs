//! What the engine is told: the members of `pgdyno.trace.engine.plan.EnginePlan`, which says what each means.

use crate::json::{read, Json};

#[derive(Debug, Default)]
pub struct Plan {
    pub tape: i32,
    pub records: i32,
    pub host: String,
    pub port: u16,
    pub tls: String,
    pub passwords: Map,
    pub stand_in: Option<String>,
    pub speed: f64,
    pub thinks: bool,
    pub users: Map,
    pub databases: Map,
    pub shard: u32,
    pub shards: u32,
    pub starts_in_s: f64,
    pub max_seconds: Option<f64>,
    pub settings: Map,
    pub connect_timeout_s: f64,
    pub account: String,
    pub stall_ms: i64,
}

/// A few texts by name.
#[derive(Debug, Default)]
pub struct Map(pub Vec<(String, String)>);

impl Map {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

impl Plan {
    /// Read a plan; the error names what it cannot do with. Every member must be there, and no other.
    pub fn read(text: &str) -> Result<Plan, String> {
        let mut members = Members::of("the plan", read(text)?)?;
        let mut end_point = Members::of("end_point", members.take("end_point")?)?;
        let mut login = Members::of("login", members.take("login")?)?;
        let plan = Plan {
            tape: members.number("tape")? as i32,
            records: members.number("records")? as i32,
            host: end_point.text("host")?,
            port: end_point.number("port")? as u16,
            tls: end_point.text("tls")?,
            passwords: login.map("passwords")?,
            stand_in: login.optional_text("stand_in")?,
            speed: members.number("speed")?,
            thinks: members.text("clock")? == "think",
            users: members.map("users")?,
            databases: members.map("databases")?,
            shard: members.number("shard")? as u32,
            shards: members.number("shards")? as u32,
            starts_in_s: members.number("starts_in_s")?,
            max_seconds: members.optional_number("max_seconds")?,
            settings: members.map("settings")?,
            connect_timeout_s: members.number("connect_timeout_s")?,
            account: members.text("account")?,
            stall_ms: members.number("stall_ms")? as i64,
        };
        end_point.optional_text("root_certificate")?;
        for rest in [&members, &end_point, &login] {
            if let Some((name, _)) = rest.members.first() {
                return Err(format!("{} has a member {name:?} that this engine does not know; build it anew", rest.of));
            }
        }
        plan.checked()
    }

    fn checked(self) -> Result<Plan, String> {
        if self.speed <= 0.0 || self.shards == 0 || self.connect_timeout_s <= 0.0 {
            return Err("speed, shards and connect_timeout_s must be above 0".into());
        }
        if !self.host.starts_with('/') && !matches!(self.tls.as_str(), "disable" | "allow") {
            return Err(format!("this engine speaks no TLS, and sslmode is {}", self.tls));
        }
        if self.passwords.0.iter().any(|(_, password)| !password.is_ascii()) {
            return Err("this engine has no SASLprep for a password that is not all ASCII".into());
        }
        Ok(self)
    }

    /// Return the user, the group and the groups of `account`; None where it is empty.
    pub fn account(&self) -> Result<Option<(u32, u32, Vec<u32>)>, String> {
        if self.account.is_empty() {
            return Ok(None);
        }
        let wrong = |_| format!("{:?} is no account", self.account);
        let mut parts = self.account.splitn(3, ':');
        let mut part = || parts.next().unwrap_or("");
        let (uid, gid, groups) = (part().parse().map_err(wrong)?, part().parse().map_err(wrong)?, part());
        let groups = groups.split(',').filter(|group| !group.is_empty()).map(str::parse).collect::<Result<_, _>>();
        Ok(Some((uid, gid, groups.map_err(wrong)?)))
    }
}

struct Members {
    of: &'static str,
    members: Vec<(String, Json)>,
}

impl Members {
    fn of(of: &'static str, value: Json) -> Result<Members, String> {
        match value {
            Json::Object(members) => Ok(Members { of, members }),
            _ => Err(format!("{of} is no object")),
        }
    }

    fn take(&mut self, name: &str) -> Result<Json, String> {
        match self.members.iter().position(|(key, _)| key == name) {
            Some(at) => Ok(self.members.swap_remove(at).1),
            None => Err(format!("{} has no {name}", self.of)),
        }
    }

    fn wrong<T>(&self, name: &str) -> Result<T, String> {
        Err(format!("{name} of {} is not what it must be", self.of))
    }

    fn optional_number(&mut self, name: &str) -> Result<Option<f64>, String> {
        match self.take(name)? {
            Json::Number(number) => Ok(Some(number)),
            Json::Null => Ok(None),
            _ => self.wrong(name),
        }
    }

    fn number(&mut self, name: &str) -> Result<f64, String> {
        match self.optional_number(name)? {
            Some(number) => Ok(number),
            None => self.wrong(name),
        }
    }

    fn optional_text(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.take(name)? {
            Json::Text(text) => Ok(Some(text)),
            Json::Null => Ok(None),
            _ => self.wrong(name),
        }
    }

    fn text(&mut self, name: &str) -> Result<String, String> {
        match self.optional_text(name)? {
            Some(text) => Ok(text),
            None => self.wrong(name),
        }
    }

    fn map(&mut self, name: &str) -> Result<Map, String> {
        let Json::Object(members) = self.take(name)? else { return self.wrong(name) };
        let mut found = Vec::with_capacity(members.len());
        for (key, value) in members {
            let Json::Text(text) = value else { return self.wrong(name) };
            found.push((key, text));
        }
        Ok(Map(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"{"tape": 5, "records": 6, "end_point": {"host": "/run", "port": 5432, "tls": "disable",
        "root_certificate": null}, "login": {"passwords": {"a": "b"}, "stand_in": null}, "speed": 2.5,
        "clock": "think", "users": {}, "databases": {"x": "y"}, "shard": 1, "shards": 3, "starts_in_s": 0.5,
        "max_seconds": null, "settings": {}, "connect_timeout_s": 10.0, "account": "70:71:1,2", "stall_ms": 250}"#;

    #[test]
    fn a_plan_is_read() {
        let plan = Plan::read(PLAN).unwrap();
        assert_eq!((plan.tape, plan.records, plan.port, plan.shard, plan.shards), (5, 6, 5432, 1, 3));
        assert!(plan.thinks && plan.max_seconds.is_none() && plan.stand_in.is_none());
        assert_eq!((plan.passwords.get("a"), plan.databases.get("z")), (Some("b"), None));
        assert_eq!(plan.account(), Ok(Some((70, 71, vec![1, 2]))));
    }

    #[test]
    fn what_cannot_be_done_is_refused_by_name() {
        for (from, to, said) in [
            ("\"speed\"", "\"sped\"", "the plan has no speed"),
            ("\"users\": {}", "\"users\": {}, \"more\": 1", "member \"more\""),
            ("\"shard\": 1", "\"shard\": \"1\"", "shard of the plan"),
            ("\"a\": \"b\"", "\"a\": \"ü\"", "SASLprep"),
            ("\"/run\"", "\"db.example\"", ""),
            ("2.5", "0", "speed"),
        ] {
            let read = Plan::read(&PLAN.replace(from, to));
            assert_eq!(read.is_err(), !said.is_empty(), "{to}");
            assert!(read.err().unwrap_or_default().contains(said), "{to}");
        }
        let remote = PLAN.replace("\"/run\"", "\"db.example\"").replace("\"disable\"", "\"prefer\"");
        assert!(Plan::read(&remote).unwrap_err().contains("no TLS"));
        assert!(Plan::read(&PLAN.replace("70:71", "x:71")).unwrap().account().is_err());
    }
}
