//! Commands of container engines: which image or container, and what runs in it.

use super::tables::{APPTAINER, CONTAINER, ENGINE, RUNTIME_ENTRYPOINTS};
use super::{names, options, places, shell};

/// Words between the engine and `run` or `exec` (`docker container run`, `docker compose run`).
const MAX_GROUPS: usize = 2;

/// What an engine is to run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    /// The image's repository, or the name of a container or service.
    pub(super) container: Option<String>,
    /// The image or service that is the server.
    pub(super) image: Option<String>,
    /// The digest or the tag of the image that is the server.
    pub(super) version: Option<String>,
    /// The command in it, where that says more.
    pub(super) words: Vec<String>,
    /// The arguments of the image that is the server.
    pub(super) arguments: Vec<String>,
}

/// `docker run` an image, `docker exec` in a container, `docker compose run` a service; `None`: none of these.
pub(super) fn read(engine: &str, args: &[&str]) -> Option<Run> {
    if matches!(engine, "apptainer" | "singularity") {
        return apptainer(args);
    }
    let (mut rest, mut is_service) = (ENGINE.behind(args), engine.ends_with("-compose"));
    for _ in 0..MAX_GROUPS {
        match rest {
            ["container", behind @ ..] => rest = ENGINE.behind(behind),
            ["compose", behind @ ..] => {
                is_service = true;
                rest = ENGINE.behind(behind);
            }
            _ => break,
        }
    }
    let (is_exec, rest) = match rest {
        ["run", rest @ ..] => (false, rest),
        ["exec", rest @ ..] => (true, rest),
        _ => return None,
    };
    let own = CONTAINER.before(rest);
    let Some((first, inner)) = CONTAINER.behind(rest).split_first() else { return Some(Run::default()) };
    let (first, inner) = (*first, inner.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    if own.contains(&"--rootfs") {
        return Some(Run { words: inner, ..Run::default() });
    }
    if is_exec {
        return Some(Run { container: Some(first.to_owned()), words: inner, ..Run::default() });
    }
    if is_service {
        return Some(Run {
            container: Some(first.to_owned()),
            image: Some(first.to_owned()),
            ..Run::default()
        });
    }
    let image = names::image(first);
    let container = Some(names::repository(&image));
    if !names::is_runtime(&image) {
        let version = names::image_version(first).map(str::to_owned);
        return Some(Run { container, image: Some(image), version, words: Vec::new(), arguments: inner });
    }
    let mut words = options::value(own, "--entrypoint").map(shell::words).unwrap_or_default();
    if words.is_empty()
        && inner.first().is_some_and(|word| is_argument(word))
        && options::is_in(RUNTIME_ENTRYPOINTS, names::base(&image))
    {
        words.push(names::base(&image).to_owned());
    }
    words.extend(inner);
    Some(Run { container, words, ..Run::default() })
}

/// `apptainer run IMAGE`, `apptainer exec IMAGE COMMAND`: the image is a reference with a scheme, or a file.
fn apptainer(args: &[&str]) -> Option<Run> {
    let (action, rest) = APPTAINER.behind(args).split_first()?;
    let is_exec = match *action {
        "run" => false,
        "exec" | "shell" => true,
        _ => return None,
    };
    let (reference, inner) = APPTAINER.behind(rest).split_first()?;
    let file = ["sif", "simg", "img"].iter().find_map(|end| reference.strip_suffix(end)?.strip_suffix('.'));
    let (image, version) = match file.filter(|file| !file.contains("://")).map(names::image_file) {
        Some((name, version)) => (name.to_owned(), version),
        None => (names::image(reference), names::image_version(reference)),
    };
    let inner: Vec<String> = inner.iter().map(|word| (*word).to_owned()).collect();
    let container = Some(names::repository(&image));
    if is_exec || names::is_runtime(&image) {
        return Some(Run { container, words: inner, ..Run::default() });
    }
    let version = version.map(str::to_owned);
    Some(Run { container, image: Some(image), version, words: Vec::new(), arguments: inner })
}

/// Whether the first word behind a runtime's image goes to the runtime.
fn is_argument(word: &str) -> bool {
    matches!(word, "run" | "x" | "serve")
        || word.starts_with('-')
        || word.starts_with("npm:")
        || !places::split_extension(word).1.is_empty()
}
