package nvidia

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
)

// Verifies that an idle backend waits for NVML's events in one thread, and calls NVML
// no more often than documented: a wait for events lasts 4 s, and each GPU is read once
// every rescan. A second wait would be a second thread that wakes up all the time.
func TestCallsAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const gpus, wait, rescan, rest = 8, 4 * time.Second, 30 * time.Second, 10 * time.Minute
		lib := drivertest.New("H100 80GB", gpus)
		r := start(t, lib, gpus, `{"edits": {"mode": "runtime"}, "rescan": "30s"}`)
		r.Until("healthy GPUs", healthy(gpus))
		r.rest(2 * time.Minute) // the first waits are shorter
		before := map[string]int{}
		for _, function := range drivertest.Functions() {
			before[function] = lib.Calls(function)
		}
		r.rest(rest)
		waits := 0
		for _, function := range drivertest.Functions() {
			n := lib.Calls(function) - before[function]
			if strings.HasSuffix(function, "Wait") {
				waits += n
			} else if most := gpus * int(rest/rescan+1); n > most {
				t.Errorf("%s was called %d times in %v, want at most %d", function, n, rest, most)
			}
		}
		if most := int(rest/wait + 1); waits == 0 || waits > most {
			t.Errorf("%d waits for events in %v, want at most %d", waits, rest, most)
		}
		if n := lib.Sets(); n != 1 {
			t.Errorf("%d event sets, want 1", n)
		}
	})
}
