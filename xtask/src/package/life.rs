//! The life of a package on a host: installed, upgraded, removed, purged.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::util::{as_root, doing, root, run};

/// Installs `earlier`, then `package` over it, removes it and purges it, in a layer over this machine's files that is gone
/// afterwards. There is no systemd in it: that the service starts is not seen here.
///
/// # Errors
/// Something is not where or how it should be; what, is said above.
pub fn check(earlier: &Path, package: &Path) -> Result<()> {
    doing("installing, upgrading, removing and purging it, in a layer over this machine's files");
    let [earlier, package] =
        [earlier, package].map(|path| path.canonicalize().with_context(|| format!("no {}", path.display())));
    run(
        as_root("unshare")?
            .args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-eu"])
            .arg(root().join("xtask/src/package/life.sh"))
            .arg(earlier?)
            .arg(package?),
        "see the last line before this; it needs overlayfs, and dpkg",
    )
}
