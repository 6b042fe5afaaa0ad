//! Scripts of a project, which its package manager runs by their name: `npm --prefix DIR run NAME`, `pnpm --filter PACKAGE start`,
//! `yarn workspace PACKAGE start`, `deno task --cwd DIR NAME`.

use super::Command;
use super::targets;
use super::tasks::{is_build, task_name};
use crate::discovery::names;
use crate::discovery::options::{self, Options, is_in};
use crate::discovery::piece::Role;

/// Options with the directory of the project: npm-prefix(1), pnpm.io/pnpm-cli, yarnpkg.com/cli, bun.sh/docs/cli/run, docs.deno.com.
pub(super) const DIRECTORIES: &str = "--prefix -C --dir --cwd";
/// Options that select packages of a workspace: npm-run(1); pnpm.io/filtering.
const NPM_WORKSPACES: &str = "-w --workspace";
const FILTERS: &str = "-F --filter --filter-prod";
/// Commands of pnpm and yarn, where any other word is a script: pnpm.io/pnpm-cli, yarnpkg.com/cli, classic.yarnpkg.com.
const COMMANDS: &str = "add install i in remove rm uninstall un update up upgrade exec dlx create init list ls ll la why audit publish pack \
    rebuild rb link ln unlink import prune store config c set unset get info view outdated login logout whoami patch \
    patch-commit patch-remove deploy fetch approve-builds licenses doctor env setup server root bin cache catalog self-update \
    dedupe node npm plugin stage search constraints explain version versions workspaces global help policies tag team owner \
    generate-lock-entry autoclean check unplug";
impl Command {
    /// `npm run NAME`, `npm start`, `pnpm NAME`, `yarn workspace PACKAGE NAME`, with all options around them.
    pub(super) fn project_script(&mut self, args: &[&str], options: &Options) {
        let is_npm = options.has_one("--call");
        let mut own = options.before(args).to_vec();
        let mut packages = Vec::new();
        let mut rest = options.behind(args);
        if let ["workspace", package, behind @ ..] = rest {
            packages.push(*package);
            rest = behind;
        }
        let is_run = matches!(rest, ["run" | "run-script" | "rum" | "urn", ..]);
        if is_run {
            let behind = rest.get(1..).unwrap_or_default();
            own.extend(options.before(behind));
            rest = options.behind(behind);
        }
        let Some((script, behind)) = rest.split_first() else { return };
        // npm takes its own options wherever they stand.
        if is_npm {
            own.extend(behind.split(|arg| *arg == "--").next().unwrap_or_default());
        }
        self.enter(options::value(&own, DIRECTORIES));
        packages.extend(options::all(&own, if is_npm { NPM_WORKSPACES } else { FILTERS }));
        let is_command =
            is_in(COMMANDS, script) && (packages.is_empty() || !matches!(*script, "node" | "exec"));
        if is_run || matches!(*script, "start" | "restart") || !is_npm && !is_command {
            self.scripts(&packages, Some(script));
        }
    }

    /// A script of these packages of a workspace, or of the project in the directory that the command line names. It is called
    /// after the package, else after itself, else after the directory.
    pub(super) fn scripts(&mut self, packages: &[&str], script: Option<&str>) {
        let script = script.unwrap_or_default();
        let packages: Vec<String> = packages.iter().filter_map(|filter| workspace(filter)).collect();
        let is_named = |text: &str| text.to_ascii_lowercase().contains("mcp");
        let name = task_name(script);
        let is_nowhere = packages.is_empty() && self.directory.is_none();
        if is_build(script) || is_nowhere && !name.as_deref().is_some_and(is_named) {
            return;
        }
        let is_directory_named =
            self.directory.as_deref().is_some_and(|directory| is_named(names::base(directory)));
        self.push(Role::Script, "", Some("package.json"));
        if let Some(package) = packages.first() {
            self.push(Role::Package, package, None);
        } else if let Some(name) = name.filter(|name| is_named(name) || !is_directory_named) {
            self.push_script_name(&name);
        }
        let words = packages.iter().map(String::as_str);
        let words: Vec<&str> = words.chain((script != "start").then_some(script)).collect();
        if self.target.is_none() && !words.is_empty() {
            self.target = Some(targets::of_words(&words));
        }
    }
}

impl Command {
    /// A task of the project that the last piece belongs to, or that this file does: it is called after itself, else after the
    /// project's directory. The program is the same for all projects.
    pub(super) fn task_of_project(&mut self, name: Option<&str>, file: Option<&str>) {
        let Some(piece) = self.pieces.last_mut() else { return };
        match file {
            Some(file) => {
                if name.is_none() && piece.role == Role::Program {
                    piece.role = Role::Tool;
                }
                self.push(Role::Script, "", Some(file));
                if name.is_none()
                    && let Some(directory) = names::telling_directory(file, None)
                {
                    self.push(Role::Script, &directory, None);
                }
            }
            None if name.is_none() && piece.path.is_some() => {
                let title = std::mem::take(&mut piece.name);
                let (role, place) = (piece.role, piece.path.clone().unwrap_or_default());
                self.push(Role::Tool, &title, None);
                if let Some(directory) = names::telling_directory(&place, None) {
                    self.push(role, &directory, None);
                }
            }
            None => {}
        }
    }
}

/// The package that a filter selects; `None`: several or none. `...NAME`, `NAME^...`, `{./DIR}` are pnpm's.
fn workspace(filter: &str) -> Option<String> {
    let name = filter.trim_matches(['.', '^', '{', '}', '"', '\'']).trim_end_matches('/');
    if name.is_empty() || name.contains(['*', '!', '[']) {
        return None;
    }
    Some(if name.starts_with('@') { names::package(name) } else { names::base(name).to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_selects_a_package() {
        let cases = [
            ("tide", "tide"),
            ("@bay/tide", "@bay/tide"),
            ("...@bay/tide", "@bay/tide"),
            ("@bay/tide^...", "@bay/tide"),
            ("{./packages/tide}", "tide"),
            ("./packages/tide/", "tide"),
            ("@bay/*", ""),
            ("!tide", ""),
            ("[main]", ""),
            ("...", ""),
        ];
        for (filter, expected) in cases {
            assert_eq!(workspace(filter).unwrap_or_default(), expected, "{filter}");
        }
    }
}
