//! Names of scripts and tasks: which of their words say what is served.

use crate::discovery::options::is_in;

/// Words of scripts that every other project has.
const GENERIC_WORDS: &str = "start dev develop development serve server run mcp prod production stdio http sse local watch main index app \
    debug preview restart inspect inspector up live default node bun tsx ts js";
/// Words of tasks that every other project of a framework has.
const TASK_WORDS: &str = "mcpserver runserver startserver runmcp startmcp servemcp phx octane queue work worker exec execute launch listen main \
    runner console command web java spring boot bootrun quarkus quarkusdev micronaut phoenix do tool tools daemon s";
/// Words of scripts that make something, and serve nothing.
const BUILD_WORDS: &str = "build rebuild compile transpile bundle tsc prepare prebuild postinstall preinstall clean lint format fmt install \
    test tests typecheck types codegen generate gen migrate release publish coverage prettier eslint ci assemble package jar verify \
    installdist shadowjar all deps dist check docs help image";

/// With which of these a task begins that makes something, whatever its name has besides: `build-mcp`.
const MAKES: &str = "build rebuild compile bundle lint clean install uninstall publish deploy push";

/// Whether a script's name says nothing of what it serves: `dev`, `start:mcp`.
pub(super) fn is_generic_script(name: &str) -> bool {
    is_of(name, GENERIC_WORDS)
}

/// Whether a script or task makes something, and serves nothing.
pub(super) fn is_build(name: &str) -> bool {
    let first = name.split(|c: char| !c.is_ascii_alphanumeric()).find(|part| !part.is_empty());
    is_of(name, BUILD_WORDS) || first.is_some_and(|first| is_in(MAKES, &first.to_ascii_lowercase()))
}

/// What a task is called, without the parts that say nothing: `boost:mcp` is `boost-mcp`, `:tide-mcp:run` is `tide-mcp`; `None`:
/// nothing says anything (`mcp:serve`).
pub(super) fn task_name(task: &str) -> Option<String> {
    let is_word = |word: &str| !is_of(word, GENERIC_WORDS) && !is_of(word, TASK_WORDS);
    let is_telling = |part: &&str| part.split(['-', '_']).any(is_word);
    // `rake TASK[ARGUMENTS]`
    let (task, arguments) = task.split_once('[').unwrap_or((task, ""));
    [task, arguments.trim_end_matches(']')].into_iter().find_map(|text| {
        let parts = || text.split([':', '.', '/', ',', '@', ' ']).filter(|part| !part.is_empty());
        let kept = || parts().filter(|part| *part == "mcp" || is_telling(part));
        parts().any(|part| is_telling(&part)).then(|| kept().collect::<Vec<_>>().join("-"))
    })
}

/// Whether a name has these words alone.
fn is_of(name: &str, words: &str) -> bool {
    let mut parts = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    parts.all(|part| is_in(words, &part.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_is_called_without_what_says_nothing() {
        let cases = [
            ("boost:mcp", "boost-mcp"),
            (":tide-mcp:run", "tide-mcp"),
            ("start:tide", "tide"),
            ("run_tide_mcp", "run_tide_mcp"),
            ("mcp:start[tide]", "tide"),
            ("mcp:start", ""),
            ("start-server", ""),
            ("dev:stdio", ""),
            ("[", ""),
            ("", ""),
        ];
        for (task, expected) in cases {
            assert_eq!(task_name(task).unwrap_or_default(), expected, "{task}");
        }
    }
}
