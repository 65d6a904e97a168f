//! What it costs to run a program that does nothing: alone, in the jail, and in bubblewrap, from a small parent and from one that
//! holds 512 MiB. One line of JSON a row.
//!
//! `cargo run --release -p countersign-sandbox --example spawn -- [rounds]`

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::disallowed_methods, reason = "what the jail is compared with is started directly, after a pause")]

use sandbox::{Bind, Options, Probes, Profile, Program, Sandbox, Spec};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(15);
const TRUE: &str = "/bin/true";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    sandbox::main_if_asked();
    let rounds: usize = std::env::args().nth(1).map_or(Ok(200), |text| text.parse())?;
    // The small jail beside this program if it was built; else this program itself, as the product does it.
    let own = std::env::current_exe()?;
    let beside = own.parent().and_then(Path::parent).map(|folder| folder.join("countersign-jail"));
    let helper = beside.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
    let sandbox = Sandbox::new(Probes::now(&helper), &helper, Options::default())?;
    let sha256 = sandbox::sha256_of(Path::new(TRUE))?;

    for resident in [0, 512 << 20] {
        let ballast = vec![1_u8; resident];
        let mut rows: Vec<(&str, Vec<f64>)> =
            ["posix_spawn", "jail default", "jail high_isolation", "bwrap"].map(|name| (name, vec![])).into();
        // Side by side, round by round: whatever disturbs the machine disturbs all of them.
        for _ in 0..rounds {
            for (name, times) in &mut rows {
                // What the one before left for the kernel and for us to tidy up is not this one's.
                std::thread::sleep(PAUSE);
                let start = Instant::now();
                let done = match *name {
                    "posix_spawn" => Command::new(TRUE).status().is_ok_and(|status| status.success()),
                    "jail default" => jailed(&sandbox, Profile::Default, sha256),
                    "jail high_isolation" => jailed(&sandbox, Profile::HighIsolation, sha256),
                    _ => Command::new("bwrap")
                        .args(["--unshare-all", "--ro-bind", "/", "/", TRUE])
                        .stdin(Stdio::null())
                        .status()
                        .is_ok_and(|status| status.success()),
                };
                if done {
                    times.push(start.elapsed().as_secs_f64() * 1000.0);
                }
            }
        }
        black_box(&ballast);
        for (name, mut times) in rows {
            times.sort_by(f64::total_cmp);
            let at = |part: f64| times.get((times.len() as f64 * part) as usize).map_or(f64::NAN, |ms| (ms * 1000.0).round() / 1000.0);
            println!(
                "{{\"what\":\"{name}\",\"resident_mib\":{},\"runs\":{},\"min_ms\":{},\"p10_ms\":{},\"p50_ms\":{},\"p90_ms\":{}}}",
                resident >> 20,
                times.len(),
                at(0.0),
                at(0.1),
                at(0.5),
                at(0.9)
            );
        }
    }
    Ok(())
}

fn jailed(sandbox: &Sandbox, profile: Profile, sha256: [u8; 32]) -> bool {
    let mut spec = Spec::new(profile, Program { path: TRUE.into(), sha256 });
    spec.read_only = ["/usr/lib", "/lib", "/lib64", "/etc/ld.so.cache"].map(|path| Bind { host: path.into(), jail: path.into() }).into();
    sandbox.run_blocking(spec, None, None).is_ok_and(|outcome| outcome.ended == sandbox::Ended::Exited(0))
}
