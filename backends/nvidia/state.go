package nvidia

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/gpu"
	"github.com/accelmux/accelmux/backends/nvidia/monitor"
	"github.com/accelmux/accelmux/backends/nvidia/mps"
	"github.com/accelmux/accelmux/backends/reset"
	"github.com/accelmux/accelmux/backends/uevent"
)

// state is what outlives a scan and a change of settings.
type state struct {
	*monitor.Monitor
	log      *slog.Logger
	exit     func(code int)
	resetter *reset.Runner
	mps      *mps.Client
	// uevent: the kernel reported a change that no scan has followed.
	uevent atomic.Bool
	// verdicts are the verdicts by the UUID of the GPU. A GPU that is no longer in the records
	// keeps its last one, as the engine may list it as absent.
	verdicts atomic.Pointer[map[string]gpu.Verdict]

	scans sync.Mutex // locked while GPUs are read and judged; guards all below
	// records has the GPUs.
	records    gpu.Records
	mismatched []gpu.Mismatch
	// renew: the driver must be opened again to see which GPUs there are.
	renew bool
	// groups are the reset groups by UUID; see groupsOf.
	groups map[string]string
	// failed is why the last scan could not read the driver; failures counts such scans in a row.
	failed   error
	failures int
	// unloaded: the driver was unloaded at some time since the last scan that succeeded.
	unloaded bool
}

// seams are functions that tests replace.
type seams struct {
	exit    func(code int)
	open    func(driver.Options) *driver.Driver
	uevents func(want func(uevent.Event) bool) (*uevent.Listener, error)
}

func newState(log *slog.Logger, s seams) *state {
	return &state{
		Monitor: monitor.New(log, s.open), log: log, exit: s.exit, resetter: reset.NewRunner(),
		mps: mps.NewClient(log, mps.DefaultTiming()), records: gpu.Records{},
	}
}

// close stops all activity.
func (s *state) close() {
	s.Stop(&s.scans)
	s.mps.Close()
}

// verdict returns the verdict about a GPU; the zero value before the first.
func (s *state) verdict(uuid string) gpu.Verdict {
	if all := s.verdicts.Load(); all != nil {
		return (*all)[uuid]
	}
	return gpu.Verdict{}
}
