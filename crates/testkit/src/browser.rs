//! A real browser, controlled with the WebDriver protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The timeout of one driver command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a page may take, on a busy machine.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// A headless browser with a fresh profile.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

/// A tab of a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tab(String);

/// Browser settings.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// Width and height of the window.
    pub size: (u32, u32),
    /// Whether the color scheme is dark.
    pub dark: bool,
    /// Whether JavaScript is enabled.
    pub scripts: bool,
    /// Whether tabs hide each other. This needs the whole browser, which takes twice the time of its headless shell.
    pub tabs: bool,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup { size: (1350, 900), dark: false, scripts: true, tabs: false }
    }
}

/// Starts the driver, and returns it with its port. It may lose a free port to another program; it then ends.
fn start_driver() -> Option<(Child, u16)> {
    let mut driver = Command::new("chromedriver")
        .arg("--port=0")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("chromedriver is installed: cargo xtask browser");
    let mut lines = BufReader::new(driver.stdout.take().expect("its output is piped"));
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
        if let Some((_, rest)) = line.split_once("started successfully on port ") {
            let port = rest.trim().trim_end_matches('.').parse().expect("a port");
            std::thread::spawn(move || drop(std::io::copy(&mut lines, &mut std::io::sink())));
            return Some((driver, port));
        }
        line.clear();
    }
    let _ = driver.wait();
    None
}

impl Browser {
    /// Starts Chromium with its driver.
    ///
    /// # Panics
    /// Panics when they are not installed (`cargo xtask browser`) or do not start.
    pub fn start(setup: Setup) -> Browser {
        let (driver, port) = (0..5).find_map(|_| start_driver()).expect("chromedriver starts");
        let mut browser = Browser { driver, port, session: String::new() };
        let (width, height) = setup.size;
        let (program, mode) = match setup.tabs {
            true => ("/usr/bin/chromium", "--headless=new"),
            // The program itself: the driver ends its child only, which would be Debian's script around it.
            false => ("/usr/lib/chromium/chromium-headless-shell", "--headless"),
        };
        let arguments = [
            mode.to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--hide-scrollbars".to_owned(),
            "--force-color-profile=srgb".to_owned(),
            format!("--window-size={width},{height}"),
        ];
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"binary": program, "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }}});
        let started = browser.send("POST", "/session", &capabilities);
        browser.session = started["sessionId"].as_str().expect("a session").to_owned();
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        browser.devtools("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = if setup.dark { "dark" } else { "light" };
        browser.devtools(
            "Emulation.setEmulatedMedia",
            json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
        if !setup.scripts {
            browser.devtools("Emulation.setScriptExecutionDisabled", json!({"value": true}));
            browser.open("data:text/html,<title>off</title><script>document.title='on'</script>");
            assert_eq!(browser.evaluate("document.title"), "off", "a script runs");
        }
        browser
    }

    /// Opens a URL and waits until it is loaded.
    ///
    /// # Panics
    /// Panics if the page does not load within 30 seconds.
    pub fn open(&self, address: &str) {
        // The driver may return before the new page has replaced the old one.
        self.evaluate("window.leaving = true");
        self.post("/url", &json!({"url": address}));
        let start = Instant::now();
        loop {
            let state = self.evaluate("[document.readyState, !window.leaving, location.href]");
            // A fragment of the same page replaces nothing.
            let opened = state[1] == true || (address.contains('#') && state[2] == address);
            if state[0] == "complete" && opened {
                return;
            }
            assert!(start.elapsed() < PAGE_TIMEOUT, "{address} does not load");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Evaluates an expression with the DevTools, which work without scripts; null if the expression throws.
    pub fn evaluate(&self, expression: &str) -> Value {
        let reply = self.devtools("Runtime.evaluate", json!({"expression": expression, "returnByValue": true}));
        reply["result"]["value"].clone()
    }

    /// Opens a new tab in the foreground and returns it.
    pub fn new_tab(&self) -> Tab {
        let created = self.post("/window/new", &json!({"type": "tab"}));
        let tab = Tab(created["handle"].as_str().expect("a handle").to_owned());
        self.switch(&tab);
        tab
    }

    /// Returns the current tab.
    pub fn tab(&self) -> Tab {
        Tab(self.get("/window").as_str().expect("a handle").to_owned())
    }

    /// Switches to another tab.
    pub fn switch(&self, tab: &Tab) {
        self.post("/window", &json!({"handle": tab.0}));
        self.devtools("Page.bringToFront", json!({}));
    }

    /// Runs a function body in the page and returns its result.
    pub fn run(&self, script: &str, arguments: &[Value]) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": arguments}))
    }

    /// Runs an asynchronous function body, which passes its result to its last argument.
    pub fn run_later(&self, script: &str, arguments: &[Value]) -> Value {
        self.post("/execute/async", &json!({"script": script, "args": arguments}))
    }

    /// Waits until a function body returns a truthy value.
    ///
    /// # Panics
    /// Panics after 30 seconds.
    pub fn wait(&self, script: &str) {
        let start = Instant::now();
        while self.run(script, &[]) != json!(true) {
            assert!(start.elapsed() < PAGE_TIMEOUT, "the page never satisfies: {script}");
            std::thread::sleep(Duration::from_millis(25));
        }
    }

    /// Presses keys in sequence; special keys are given as WebDriver characters.
    pub fn keys(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                [
                    json!({"type": "keyDown", "value": key.to_string()}),
                    json!({"type": "keyUp", "value": key.to_string()}),
                ]
            })
            .collect();
        self.post("/actions", &json!({"actions": [{"type": "key", "id": "keys", "actions": actions}]}));
    }

    /// Returns a screenshot as PNG.
    pub fn screenshot(&self) -> Vec<u8> {
        let picture = self.get("/screenshot");
        decode(picture.as_str().expect("a picture"))
    }

    /// Returns the current URL.
    pub fn address(&self) -> String {
        self.get("/url").as_str().expect("a URL").to_owned()
    }

    /// Returns the new entries of the console log.
    pub fn log(&self) -> Vec<String> {
        let entries = self.post("/se/log", &json!({"type": "browser"}));
        let list = entries.as_array().expect("a list of entries");
        list.iter().map(|entry| entry["message"].as_str().expect("a message").to_owned()).collect()
    }

    /// Returns the URLs requested since the last call.
    pub fn requests(&self) -> Vec<String> {
        let entries = self.post("/se/log", &json!({"type": "performance"}));
        let list = entries.as_array().expect("a list of entries");
        let message = |entry: &Value| -> Value {
            serde_json::from_str(entry["message"].as_str().expect("a message")).expect("a message in JSON")
        };
        list.iter()
            .map(message)
            .filter(|message| message["message"]["method"] == "Network.requestWillBeSent")
            .filter_map(|message| Some(message["message"]["params"]["request"]["url"].as_str()?.to_owned()))
            .collect()
    }

    /// Sends a command to the DevTools.
    pub fn devtools(&self, command: &str, parameters: Value) -> Value {
        self.post("/goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.send("POST", &format!("/session/{}{path}", self.session), body)
    }

    fn get(&self, path: &str) -> Value {
        self.send("GET", &format!("/session/{}{path}", self.session), &Value::Null)
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).expect("the driver listens");
        socket.set_read_timeout(Some(COMMAND_TIMEOUT)).expect("a timeout");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            text.len()
        );
        socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(text.as_bytes())).expect("the driver reads");
        // The driver keeps connections open, even if a request asks to close them.
        let mut reader = BufReader::new(socket);
        let (mut line, mut length) = (String::new(), 0);
        while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
            let lower = line.to_ascii_lowercase();
            if let Some(given) = lower.strip_prefix("content-length:") {
                length = given.trim().parse().expect("a length");
            }
            line.clear();
        }
        let mut reply = vec![0; length];
        reader.read_exact(&mut reply).expect("the driver replies");
        let value: Value = serde_json::from_slice(&reply).expect("a reply in JSON");
        assert!(
            value["value"].get("error").is_none(),
            "{path}: {} {}",
            value["value"]["error"],
            value["value"]["message"]
        );
        value["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser outlives a driver that is killed, so a failed test ends the session, too.
        if !self.session.is_empty() {
            let end = || self.send("DELETE", &format!("/session/{}", self.session), &Value::Null);
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(end));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn decode(text: &str) -> Vec<u8> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut out, mut bits, mut count) = (Vec::with_capacity(text.len() * 3 / 4), 0u32, 0);
    for byte in text.bytes() {
        let Some(value) = LETTERS.iter().position(|letter| *letter == byte) else { continue };
        bits = bits << 6 | value as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}
