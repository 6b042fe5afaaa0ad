//! What makes a program load code besides what it is there to run: variables of its environment, and options.

mod command_line;

pub use command_line::{CODE_OPTIONS, CodeOptions, undeclared_options};

/// A variable, and what says what it does.
#[derive(Clone, Copy, Debug)]
pub struct CodeVariable {
    /// Its name.
    pub name: &'static str,
    /// Where that is documented.
    pub source: &'static str,
    /// The options in its value that load code, where others do not; empty: any value does.
    options: &'static [&'static str],
}

const fn any(name: &'static str, source: &'static str) -> CodeVariable {
    CodeVariable { name, source, options: &[] }
}

/// Options of Node.js that load a module first (nodejs.org/api/cli.html).
const NODE: &[&str] = &["-r", "--require", "--import", "--loader", "--experimental-loader"];

/// All that are known.
pub const CODE_VARIABLES: &[CodeVariable] = &[
    any("LD_PRELOAD", "ld.so(8)"),
    any("LD_LIBRARY_PATH", "ld.so(8)"),
    any("LD_AUDIT", "ld.so(8)"),
    any("GCONV_PATH", "iconv(1)"),
    any("PYTHONPATH", "docs.python.org/3/using/cmdline.html"),
    any("PYTHONHOME", "docs.python.org/3/using/cmdline.html"),
    any("PYTHONSTARTUP", "docs.python.org/3/using/cmdline.html"),
    any("PYTHONUSERBASE", "docs.python.org/3/using/cmdline.html"),
    any("PYTHONBREAKPOINT", "docs.python.org/3/using/cmdline.html"),
    CodeVariable { name: "NODE_OPTIONS", source: "nodejs.org/api/cli.html", options: NODE },
    any("NODE_PATH", "nodejs.org/api/modules.html"),
    any("BUN_OPTIONS", "bun.com/docs/runtime/env"),
    any("RUBYOPT", "ruby(1)"),
    any("RUBYLIB", "ruby(1)"),
    any("GEM_PATH", "guides.rubygems.org/command-reference"),
    any("PERL5OPT", "perlrun(1)"),
    any("PERL5LIB", "perlrun(1)"),
    any("PERLLIB", "perlrun(1)"),
    any("PERL5DB", "perlrun(1)"),
    any("JAVA_TOOL_OPTIONS", "docs.oracle.com, JVM Tool Interface"),
    any("_JAVA_OPTIONS", "docs.oracle.com, Java Troubleshooting Guide"),
    any("JDK_JAVA_OPTIONS", "java(1)"),
    any("CLASSPATH", "java(1)"),
    any("DOTNET_STARTUP_HOOKS", "learn.microsoft.com/dotnet/core/tools/dotnet-environment-variables"),
    any("DOTNET_ADDITIONAL_DEPS", "learn.microsoft.com/dotnet/core/tools/dotnet-environment-variables"),
    any("DOTNET_SHARED_STORE", "learn.microsoft.com/dotnet/core/tools/dotnet-environment-variables"),
    any("CORECLR_PROFILER_PATH", "learn.microsoft.com/dotnet/core/runtime-config/debugging-profiling"),
    any("BASH_ENV", "bash(1)"),
    any("LUA_INIT", "lua(1)"),
    any("LUA_PATH", "lua(1)"),
    any("LUA_CPATH", "lua(1)"),
    any("PHPRC", "php.net/manual/configuration.file.php"),
    any("PHP_INI_SCAN_DIR", "php.net/manual/configuration.file.php"),
    any("ERL_LIBS", "erl(1)"),
    any("JULIA_LOAD_PATH", "docs.julialang.org/en/v1/manual/environment-variables"),
    any("R_PROFILE_USER", "Startup(R)"),
];

/// The names of the variables in an environment (`NAME=value`, each ended by a zero byte) that name code to load: each once, in
/// the order of [`CODE_VARIABLES`]. Values are read and go nowhere.
pub fn code_variables(environment: &[u8]) -> Vec<&'static str> {
    let entries = || environment.split(|byte| *byte == 0);
    let value_of = |entry: &'_ [u8], name: &str| -> Option<Vec<u8>> {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        (!value.is_empty()).then(|| value.to_vec())
    };
    let is_set = |variable: &&CodeVariable| {
        entries().filter_map(|entry| value_of(entry, variable.name)).any(|value| variable.loads(&value))
    };
    CODE_VARIABLES.iter().filter(is_set).map(|variable| variable.name).collect()
}

impl CodeVariable {
    fn loads(&self, value: &[u8]) -> bool {
        let value = String::from_utf8_lossy(value);
        let is_option = |word: &str| {
            let word = word.trim_matches(['"', '\'']);
            let name = word.split('=').next().unwrap_or(word);
            self.options.contains(&name)
                || self.options.contains(&"-r") && word.starts_with("-r") && !word.starts_with("--")
        };
        self.options.is_empty() || value.split_whitespace().any(is_option)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_load_code_are_found_by_name() {
        let cases: [(&str, &[&str]); 20] = [
            ("", &[]),
            ("PATH=/bin\0HOME=/root\0LANG=C", &[]),
            ("LD_PRELOAD=/tmp/x.so", &["LD_PRELOAD"]),
            ("LD_PRELOAD=", &[]),
            ("LD_PRELOAD", &[]),
            ("XLD_PRELOAD=/x", &[]),
            ("ld_preload=/x", &[]),
            ("LD_PRELOADED=/x", &[]),
            ("A=1\0LD_AUDIT=/x\0LD_LIBRARY_PATH=/y\0", &["LD_LIBRARY_PATH", "LD_AUDIT"]),
            ("LD_PRELOAD=\0LD_PRELOAD=/x", &["LD_PRELOAD"]),
            ("LD_PRELOAD=/x\0LD_PRELOAD=/y", &["LD_PRELOAD"]),
            (
                "PYTHONPATH=/a\0PYTHONSTARTUP=/b\0PYTHONHOME=/c",
                &["PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP"],
            ),
            ("NODE_OPTIONS=--max-old-space-size=4096", &[]),
            ("NODE_OPTIONS=--require /x.js", &["NODE_OPTIONS"]),
            ("NODE_OPTIONS=--max-old-space-size=1 --import=data:x", &["NODE_OPTIONS"]),
            ("NODE_OPTIONS=-r/x.js", &["NODE_OPTIONS"]),
            ("NODE_OPTIONS=\"--require=/x y.js\"", &["NODE_OPTIONS"]),
            ("RUBYOPT=-rx\0PERL5OPT=-Mx\0NODE_PATH=/x", &["NODE_PATH", "RUBYOPT", "PERL5OPT"]),
            (
                "JAVA_TOOL_OPTIONS=-javaagent:x\0DOTNET_STARTUP_HOOKS=x",
                &["JAVA_TOOL_OPTIONS", "DOTNET_STARTUP_HOOKS"],
            ),
            ("EMPTY=\0=x\0\0BASH_ENV=\u{fffd}", &["BASH_ENV"]),
        ];
        for (environment, expected) in cases {
            assert_eq!(code_variables(environment.as_bytes()), expected, "{environment:?}");
        }
        assert_eq!(code_variables(b"LD_PRELOAD=\xff\xfe"), ["LD_PRELOAD"], "no text");
    }

    /// The page that lists them has all of them, each with what documents it.
    #[test]
    fn documented_variables_match_the_table() {
        let page = std::fs::read_to_string("../docs/reference/events.md").unwrap();
        for CodeVariable { name, source, .. } in CODE_VARIABLES {
            assert!(page.contains(&format!("| `{name}` | {source} |")), "{name}: {source}");
        }
        let rows = page.lines().filter(|line| {
            line.starts_with("| `")
                && CODE_VARIABLES.iter().any(|one| line.starts_with(&format!("| `{}` |", one.name)))
        });
        assert_eq!(rows.count(), CODE_VARIABLES.len());
    }
}
