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

// state outlives scans and changes of settings.
type state struct {
	*monitor.Monitor
	log      *slog.Logger
	exit     func(code int)
	resetter *reset.Runner
	mps      *mps.Client
	// uevent: the kernel has reported a change since the last scan began.
	uevent atomic.Bool
	// verdicts are the verdicts by the UUID of the GPU. The last one of a GPU that has no record any
	// more stays, as the engine may list the GPU as absent.
	verdicts atomic.Pointer[map[string]gpu.Verdict]
	// forgotten: all GPUs were read, and MIG devices of the record that did not outlive the last boot were
	// removed from it.
	forgotten atomic.Bool

	scans sync.Mutex // locked while GPUs are read and judged; guards all below
	// mismatched are the mismatches that the last scan found.
	records    gpu.Records
	mismatched []gpu.Mismatch
	// renew: the next scan must open the driver again, as NVML lists GPUs when it is opened.
	renew bool
	// groups are the reset groups by UUID; see groupsOf.
	groups map[string]string
	// failed is why the last scan could not read the driver; failures counts such scans in a row,
	// since the last event of the kernel.
	failed   error
	failures int
	// unloaded: the driver was unloaded since the last scan that succeeded.
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

// close stops the monitor and the client of MPS.
func (s *state) close() {
	s.Stop(&s.scans)
	s.mps.Close()
}

// verdict returns the verdict about a GPU; the zero value if there is none yet.
func (s *state) verdict(uuid string) gpu.Verdict {
	if all := s.verdicts.Load(); all != nil {
		return (*all)[uuid]
	}
	return gpu.Verdict{}
}
