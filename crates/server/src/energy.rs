//! The energy that the host's processors use, from the counters that Linux shows for RAPL: `/sys/class/powercap/intel-rapl:N/energy_uj`,
//! on processors of Intel and AMD alike. Most hosts let only root read them, and virtual machines have none.

use countersign_core::energy::Energy;
use parking_lot::Mutex;
use std::fs;
use std::path::{Path, PathBuf};

/// Where Linux shows the counters.
pub(crate) const POWERCAP: &str = "/sys/class/powercap";

/// The counters of the host's processors.
pub(crate) struct Rapl(Mutex<Vec<Counter>>);

/// The counter of one processor. It starts again at 0 after `range_uj`.
struct Counter {
    file: PathBuf,
    range_uj: u64,
    last_uj: u64,
    total_uj: u64,
}

impl Rapl {
    /// The counters below this folder that can be read; `None` if there is none.
    pub(crate) fn open(folder: &Path) -> Option<Self> {
        let zones = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
        let counters: Vec<_> = zones.filter_map(|zone| Counter::open(&zone)).collect();
        (!counters.is_empty()).then(|| Self(Mutex::new(counters)))
    }
}

impl Energy for Rapl {
    // Reading such a file asks the processor and no disk: it takes microseconds, so it may be done anywhere.
    fn total_uj(&self) -> Option<u64> {
        self.0.lock().iter_mut().map(Counter::total_uj).sum()
    }
}

impl Counter {
    /// `None` for everything but a whole processor: its parts, and the counter of the whole machine, count the same energy once more.
    fn open(zone: &Path) -> Option<Self> {
        let is_processor = fs::read_to_string(zone.join("name")).ok()?.trim().starts_with("package-");
        let file = zone.join("energy_uj");
        let (range_uj, last_uj) = (number(&zone.join("max_energy_range_uj"))?, number(&file)?);
        is_processor.then_some(Self { file, range_uj, last_uj, total_uj: 0 })
    }

    fn total_uj(&mut self) -> Option<u64> {
        let now_uj = number(&self.file)?;
        let used = now_uj.checked_sub(self.last_uj).unwrap_or_else(|| self.range_uj.saturating_sub(self.last_uj).saturating_add(now_uj));
        self.last_uj = now_uj;
        self.total_uj = self.total_uj.saturating_add(used);
        Some(self.total_uj)
    }
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(folder: &Path, id: &str, name: &str, energy_uj: &str) {
        let zone = folder.join(id);
        fs::create_dir_all(&zone).unwrap();
        for (file, text) in [("name", name), ("max_energy_range_uj", "1000\n"), ("energy_uj", energy_uj)] {
            fs::write(zone.join(file), text).unwrap();
        }
    }

    #[test]
    fn processors_are_added_up_and_a_counter_may_start_again() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        zone(at, "intel-rapl:0", "package-0\n", "900\n");
        zone(at, "intel-rapl:1", "package-1\n", "10\n");
        zone(at, "intel-rapl:0:0", "core\n", "5\n");
        zone(at, "intel-rapl:2", "psys\n", "5\n");
        let rapl = Rapl::open(at).unwrap();
        assert_eq!(rapl.total_uj(), Some(0));
        zone(at, "intel-rapl:0", "package-0\n", "50\n");
        zone(at, "intel-rapl:1", "package-1\n", "17\n");
        zone(at, "intel-rapl:0:0", "core\n", "500\n");
        assert_eq!(rapl.total_uj(), Some(150 + 7));
        fs::write(at.join("intel-rapl:1/energy_uj"), "what?").unwrap();
        assert_eq!(rapl.total_uj(), None);
    }

    #[test]
    fn a_host_without_counters_tells_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Rapl::open(folder.path()).is_none());
        assert!(Rapl::open(&folder.path().join("absent")).is_none());
        zone(folder.path(), "intel-rapl:0", "package-0\n", "");
        assert!(Rapl::open(folder.path()).is_none());
    }
}
