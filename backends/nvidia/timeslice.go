package nvidia

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/made"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/mps"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// parameters are those of Prepare.
type parameters struct {
	// Sharing is TimeSlicing, as NVIDIA's own DRA driver names this strategy, or empty.
	Sharing string `json:"sharing"`
	// TimeSlice is one of the names of intervals; empty if the holder asks for none.
	TimeSlice string `json:"timeSlice"`
}

// defaultInterval is the driver's own.
const defaultInterval = "Default"

// intervals are the values of nvidia-smi compute-policy --set-timeslice by the names of NVIDIA's own DRA
// driver. The driver does not document their lengths.
var intervals = map[string]int{defaultInterval: 0, "Short": 1, "Medium": 2, "Long": 3}

type timeSlicingSettings struct {
	// Shares is how many claims that request no memory can share a GPU; 0 or 1: one claim at a time.
	Shares int `json:"shares"`
	// StateFile has the GPUs whose interval was set.
	StateFile string `json:"stateFile"`
}

// defaultTimeSliceFile is in the state directory of the chart and the packages.
const defaultTimeSliceFile = "/var/lib/accelmux/backends/nvidia/time-slices.json"

// slicing sets the length of the time slices of GPUs. NVML has no call for that, so the driver's nvidia-smi does
// it. It cannot be read, either: that it was set is known from the exit status.
type slicing struct {
	timeSlicingSettings
	// record has the interval for which a holder asked, by [sliceKey].
	record *made.Record
}

// newSlicing checks the settings, and adds errors. The record is not opened yet.
func newSlicing(s timeSlicingSettings, cfg *config, errs *sdk.FieldErrors) *slicing {
	if s.StateFile = cmp.Or(s.StateFile, defaultTimeSliceFile); s.StateFile == cfg.stateFile {
		errs.Add("timeSlicing.stateFile", "%q is mig.stateFile, too: set another one", s.StateFile)
	}
	if cfg.mps != nil && len(cfg.mps.Chosen()) == 0 {
		errs.Add("timeSlicing", "MPS shares all GPUs: set mps.uuids to those that it is to share")
	}
	return &slicing{timeSlicingSettings: s}
}

// sliceKey is the name of a GPU and a holder in the record. A UUID has no spaces.
func sliceKey(gpu, holder string) string { return gpu + " " + holder }

// others returns the intervals for which other holders of the GPU asked, by their keys.
func (s *slicing) others(gpu, holder string) map[string]string {
	all := s.record.Devices()
	maps.DeleteFunc(all, func(key, _ string) bool {
		return !strings.HasPrefix(key, sliceKey(gpu, "")) || key == sliceKey(gpu, holder)
	})
	return all
}

// slices reports whether the parameters apply to a GPU.
func (c *config) slices(g driver.GPU) bool {
	return c.slicing != nil && !g.MIGEnabled && (c.mps == nil || !c.mps.Shares(g.UUID))
}

// describe sets on a device that it is shared by time-slicing.
func (s *slicing) describe(d *sdk.Device, memory uint64) {
	for _, hook := range []sdk.Hook{sdk.HookPrepare, sdk.HookRelease} {
		if !slices.Contains(d.Hooks, hook) {
			d.Hooks = append(d.Hooks, hook)
		}
	}
	if s.Shares > 1 && memory > 0 {
		d.Shareable, d.Attributes["sharing"] = true, sdk.String("time-slicing")
		d.RequestPolicies = map[string]*backendv1.RequestPolicy{mps.MemoryCapacity: mps.MemoryPolicy(memory/uint64(s.Shares), memory)} //nolint:gosec // 2 to 100
	}
}

// parametersOf decodes the parameters of a holder.
func parametersOf(data json.RawMessage) (p parameters, err error) {
	return p, json.Unmarshal(data, &p)
}

// canSlice returns an error if the parameters do not apply to one of the devices.
func (c *config) canSlice(p parameters, devices []engine.Target) error {
	for _, t := range devices {
		whole := instanceOf(t.Device) == nil && partitionOf(t.Device) == nil
		if p != (parameters{}) && (!whole || !c.slices(readingOf(t.Unit).GPU)) {
			return fmt.Errorf("the parameters sharing and timeSlice do not apply to %s: it must be a whole GPU that MPS does not share, on a node with the setting timeSlicing", t.Device.ID)
		}
	}
	return nil
}

// slice sets the interval for which a holder asks on its GPUs, or ends what it asked for before. If it fails,
// what it set is set back.
func (b *Backend) slice(ctx context.Context, cfg *config, holder, interval string, gpus []engine.Target) (err error) {
	if cfg.slicing == nil {
		return nil
	}
	var asked []engine.Target
	defer func() {
		if err == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		for _, t := range asked {
			err = errors.Join(err, b.unslice(ctx, cfg, holder, t.Device.ID, t.Shared))
		}
	}()
	for _, t := range gpus {
		var undo bool
		if interval == "" {
			err = b.unslice(ctx, cfg, holder, t.Device.ID, t.Shared)
		} else if undo, err = b.setSlice(ctx, cfg, holder, interval, t); undo {
			asked = append(asked, t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setSlice sets the interval for which a holder asks on a GPU. undo reports whether it was set, or may have
// been; then it is in the record.
func (b *Backend) setSlice(ctx context.Context, cfg *config, holder, interval string, t engine.Target) (undo bool, err error) {
	gpu, record := t.Unit.ID, cfg.slicing.record
	leave, err := b.Enter(ctx, gpu)
	if err != nil {
		return false, err
	}
	defer leave()
	others := cfg.slicing.others(gpu, holder)
	if !t.Shared { // these have ended, and their releases were lost
		if err := record.Remove(slices.Collect(maps.Keys(others))...); err != nil {
			return false, err
		}
		others = nil
	}
	for _, key := range slices.Sorted(maps.Keys(others)) {
		if others[key] != interval {
			_, other, _ := strings.Cut(key, " ")
			return false, fmt.Errorf("GPU %s cannot have time slices of the interval %s: another claim or container (UID %s), which shares it, asked for %s, and a GPU has one interval for all",
				gpu, interval, other, others[key])
		}
	}
	key := sliceKey(gpu, holder)
	before := record.Holder(key)
	if err := record.Put(key, interval); err != nil {
		return false, err
	}
	if err = b.runSlice(ctx, cfg, gpu, interval); err == nil {
		b.log.Info("the time slices of a GPU were set", "device", gpu, "holder", holder, "interval", interval)
		return true, nil
	}
	if ctx.Err() != nil { // it may have been set
		return true, err
	}
	if before != "" {
		return false, errors.Join(err, record.Put(key, before))
	}
	return false, errors.Join(err, record.Remove(key))
}

// unslice ends what a holder asked for on a GPU. The interval is set to the default when no other holder asked
// for one. It does nothing if the record has nothing of the GPU.
func (b *Backend) unslice(ctx context.Context, cfg *config, holder, gpu string, shared bool) error {
	own, others := sliceKey(gpu, holder), cfg.slicing.others(gpu, holder)
	ended := slices.Collect(maps.Keys(others)) // their releases were lost
	if shared {
		ended = nil
	}
	if cfg.slicing.record.Holder(own) != "" {
		ended = append(ended, own)
	}
	if len(ended) == 0 {
		return nil
	}
	leave, err := b.Enter(ctx, gpu)
	if err != nil {
		return err
	}
	defer leave()
	if !shared || len(others) == 0 {
		err := b.runSlice(ctx, cfg, gpu, defaultInterval)
		switch {
		case err == nil:
			b.log.Info("the time slices of a GPU were set back to the default", "device", gpu, "holder", holder)
		case b.isGone(ctx, gpu): // the driver keeps no policy of a GPU that it has to find again
			b.log.Warn("the time slices of a GPU that is gone were not set back to the default", "device", gpu, "holder", holder, "error", err)
		default:
			return err
		}
	}
	return cfg.slicing.record.Remove(ended...)
}

// isGone reports whether the GPU is not there, or lost until it is found again.
func (b *Backend) isGone(ctx context.Context, gpu string) (gone bool) {
	_ = b.Do(ctx, func(known engine.Known) { gone = known.Scanned() }) // false if ctx ended
	t, err := b.Find(ctx, []string{gpu})
	if err != nil || len(t.Devices) == 0 {
		return gone && err == nil
	}
	return errors.Is(readingOf(t.Devices[0].Unit).Err, driver.ErrLost)
}

// runSlice sets the interval of a GPU. It waits for a reset of any GPU, which nvidia-smi would disturb.
func (b *Backend) runSlice(ctx context.Context, cfg *config, gpu, interval string) error {
	_, err := b.resetter.Run(ctx, func(ctx context.Context) (string, error) {
		return cfg.means.RunTool(ctx, "compute-policy", "-i", gpu, "--set-timeslice", strconv.Itoa(intervals[interval]))
	})
	if err != nil {
		return fmt.Errorf("set the time slices of GPU %s to the interval %s: %w", gpu, interval, err)
	}
	return nil
}
