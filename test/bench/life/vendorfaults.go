package life

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/test/bench/rig"
	"github.com/accelmux/accelmux/test/nvml"
)

const (
	// faultRounds are how often each of a vendor's devices fails.
	faultRounds = 25
	// apart lets each fault find the node at rest: kubelet gets lists of one resource at
	// least 50 ms apart.
	apart = 100 * time.Millisecond
	// faultP99 is the limit, in milliseconds.
	faultP99 = 10
)

// vendorFault is a way in which a vendor's devices fail.
type vendorFault struct {
	vendor, resource string
	// fail shows the fault of a device, heal that no device has one any more.
	fail func(n *vendorNode, device int) error
	heal func(*vendorNode) error
	// file is which one the backend reads to see it; nil if it is told.
	file func(n *vendorNode, device int) (dir, name string, err error)
	// since is from when the time counts.
	since string
}

var ofVendors = []vendorFault{
	{
		vendor: "AMD", resource: "amd.com/gpu", fail: failAMD, file: counterOfAMD, since: "from the look at the error counters",
		heal: reloadAMD,
	},
	{
		vendor: "FPGA", resource: "fpga.intel.com/region", file: registerOfFPGA, since: "from the look at the error registers",
		fail: func(n *vendorNode, card int) error { return n.setRegister(card, 1) },
		heal: func(n *vendorNode) error {
			return overAll(func(card int) error { return n.setRegister(card, 0) })
		},
	},
	{
		vendor: "NVIDIA", resource: "nvidia.com/gpu", since: "from NVML's word of the event",
		fail: func(n *vendorNode, gpu int) error { return n.recoveryAction(gpu, 1) },
		heal: func(n *vendorNode) error {
			return overAll(func(gpu int) error { return n.recoveryAction(gpu, 0) })
		},
	},
}

// overAll does something to each device.
func overAll(do func(device int) error) error {
	var errs []error
	for device := range units {
		errs = append(errs, do(device))
	}
	return errors.Join(errs...)
}

func failAMD(n *vendorNode, gpu int) error { return n.amd.RaiseCounter(gpu, "umc.ue", 1) }

// reloadAMD loads the driver anew, with which counters begin at 0, once it was missed.
func reloadAMD(n *vendorNode) error {
	if err := n.amd.ReloadDriver(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client := status.NewClient(n.Path("run"))
	missed, err := rig.Poll(patience, 20*time.Millisecond, func() (bool, error) {
		report, err := client.Report(ctx)
		return slices.ContainsFunc(report.Problems, func(p status.Problem) bool { return strings.Contains(p.Message, "without a driver") }), err
	})
	if err != nil || !missed {
		return errors.Join(fmt.Errorf("the backend does not miss its driver within %v", patience), err)
	}
	return n.amd.ReloadDriver(0, 1, 2, 3, 4, 5, 6, 7)
}

func counterOfAMD(n *vendorNode, gpu int) (dir, name string, err error) {
	return filepath.Join(n.amd.Device(gpu), "ras"), "umc_err_count", nil
}

// setRegister sets one of a card's error registers.
func (n *vendorNode) setRegister(card int, value uint64) error {
	return n.fpga.SetRegister(n.fpga.Machine().Cards[card].Address, "fme/nonfatal_errors", value)
}

func registerOfFPGA(n *vendorNode, card int) (dir, name string, err error) {
	found, err := n.fpga.Find(n.fpga.Machine().Cards[card].Address, "fme")
	return filepath.Join(n.fpga.Root, found, "errors"), "nonfatal_errors", err
}

// recoveryAction is what the driver wants of who uses a GPU; 0 is nothing.
func (n *vendorNode) recoveryAction(gpu, action int) error {
	err := n.driver.Update(func(s nvml.State) { s.GPU(gpu).Set("recovery-action", action) })
	if err == nil {
		_, err = n.driver.Event(fmt.Sprintf("gpu %d type gpu-recovery-action", gpu))
	}
	return err
}

// vendorFaults are how long faults take to kubelet's stream, by vendor.
func vendorFaults(s *rig.Setup, library string) ([]rig.Figure, error) {
	var all []rig.Figure
	for _, f := range ofVendors {
		figures, err := f.measure(s, library)
		if err != nil {
			return nil, fmt.Errorf("faults of %s devices: %w", f.vendor, err)
		}
		all = append(all, figures...)
	}
	return all, nil
}

// way is that of a fault: when it is there, when the backend can know it, and when kubelet
// has heard of it.
type way struct{ shown, known, heard time.Time }

func (f vendorFault) measure(s *rig.Setup, library string) (_ []rig.Figure, err error) {
	n, _, err := startVendors(s.Bin, library, f.resource)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.Stop()) }()
	hop, err := rig.StartHop()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, hop.Stop()) }()
	var ways []way
	var hops []time.Duration
	for range s.Samples(faultRounds) {
		for device := range units {
			<-time.After(apart)
			took, err := hop.Take()
			if err != nil {
				return nil, err
			}
			w, err := f.once(n, device)
			if err != nil {
				return nil, err
			}
			ways, hops = append(ways, w), append(hops, took)
		}
		if err := f.heal(n); err != nil {
			return nil, err
		}
		if _, err := n.Await(units); err != nil {
			return nil, err
		}
	}
	if f.file == nil {
		if err := askNVML(n, ways); err != nil {
			return nil, err
		}
	}
	return f.figures(ways, hops)
}

// once has a device fail.
func (f vendorFault) once(n *vendorNode, device int) (w way, err error) {
	w.shown = time.Now()
	if err := f.fail(n, device); err != nil {
		return w, err
	}
	var opened *rig.Opened
	if f.file != nil { // not before: the double opens it, too
		dir, name, err := f.file(n, device)
		if err != nil {
			return w, err
		}
		if opened, err = rig.WatchOpened(dir, name); err != nil {
			return w, err
		}
	}
	if w.heard, err = n.Await(units - device - 1); opened == nil {
		return w, err
	}
	known, endErr := opened.End()
	w.known = known
	return w, errors.Join(err, endErr)
}

// askNVML has the log of calls say when the library told the events.
func askNVML(n *vendorNode, ways []way) error {
	shown := make([]time.Time, len(ways))
	for i, w := range ways {
		shown[i] = w.shown
	}
	told, err := n.driver.Told(shown)
	if err != nil {
		return err
	}
	for i := range ways {
		ways[i].known, ways[i].heard = told[i], ways[i].heard.Round(0)
	}
	return nil
}

// figures are the lines of the table. A fault that was found before the watch of the file
// began, or by a look at everything, does not count.
func (f vendorFault) figures(ways []way, hops []time.Duration) ([]rig.Figure, error) {
	var took, all []time.Duration
	for _, w := range ways {
		all = append(all, w.heard.Sub(w.shown.Round(0)))
		if !w.known.IsZero() && w.known.Before(w.heard) {
			took = append(took, w.heard.Sub(w.known))
		}
	}
	if len(took) < len(ways)*9/10 {
		return nil, fmt.Errorf("of %d of %d faults it is not known how the backend found them", len(ways)-len(took), len(ways))
	}
	var figures []rig.Figure
	for _, q := range []struct {
		name      string
		of, limit float64
	}{{"p50", 0.5, 0}, {"p99", 0.99, faultP99}, {"slowest", 1, 0}} {
		figures = append(figures, rig.Figure{
			What: fmt.Sprintf("fault to kubelet, %s, %s", f.vendor, q.name), Unit: "ms", Limit: q.limit, Samples: len(took),
			Value: rig.Milliseconds(rig.Quantile(took, q.of)), Floor: rig.Milliseconds(rig.Quantile(hops, q.of)),
			FloorIs: "a byte to another process and back",
			Note:    fmt.Sprintf("%s; %.0f ms from the fault itself", f.since, rig.Milliseconds(rig.Quantile(all, q.of))),
		})
	}
	return figures, nil
}
