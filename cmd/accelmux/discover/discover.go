// Package discover finds what of accelmux fits a machine, and writes a node configuration of it.
//
// It asks the backends' programs themselves: each whose manifest has no hardware, or has some that is on the PCI bus, is
// started once, without settings, and fits if it lists devices. So it is true for backends of others, too, and knows no device
// of its own. Of a backend whose manifest has presets all are tried, and those fit that have devices, whose class is the
// preset's name.
//
//	manifests, PCI bus ──► programs ──► inventory ──► the presets that fit ──┐
//	manifests, PCI bus ────────────────────────────────────────────────────► Result ──► Write
package discover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/manifest"
	"github.com/accelmux/accelmux/core/pcibus"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/sandbox"
	"github.com/accelmux/accelmux/core/supervisor"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Options are where to look.
type Options struct {
	// BackendDir holds the programs.
	BackendDir string
	Paths      *backendv1.HostPaths
	Log        *slog.Logger
	Timing     supervisor.Timing
	// Limit is how long all programs together may take to list their devices. Default 10s.
	Limit time.Duration
	// Waiting is called once with the programs that take long, and the limit; nil for none.
	Waiting func(programs []string, limit time.Duration)
}

// Result is what was found.
type Result struct {
	// Fitting are the backends that list devices, or whose hardware is there.
	Fitting []Backend
	// Idle are the names of the others, Failed why a program could not be asked, by name.
	Idle   []string
	Failed map[string]string
	// Uncovered are accelerators that no backend lists or covers.
	Uncovered []pcibus.Accelerator
	// Unserved are functions that a preset would list in another state, such as with another driver, and what to do.
	Unserved []string
	// Hindered are other problems of presets that list nothing: they may be why.
	Hindered []string
}

// Backend is a backend that fits.
type Backend struct {
	Name string
	// Presets are those of its presets that fit; nil if it has none.
	Presets []string
	*inventory.Backend
	// Unlisted is its hardware that it does not list.
	Unlisted []pcibus.Accelerator
}

// mock is the backend whose devices are none.
const mock = "mock"

// Find asks the programs. The error is for the operator.
func Find(ctx context.Context, o Options) (*Result, error) {
	programs, err := plug.Programs(o.BackendDir)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "accelmux-discover-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for sockets: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r := &Result{Failed: map[string]string{}}
	specs, presets, err := r.read(o, programs)
	if err != nil {
		return nil, err
	}
	listed, err := o.list(ctx, dir, specs, r.Failed)
	if err != nil {
		return nil, err
	}
	chosen := map[string][]string{}
	for name, b := range listed {
		if len(presets[name]) > 0 {
			chosen[name] = fitting(presets[name], b)
			listed[name] = r.narrow(b, presets[name], chosen[name])
		}
	}
	slices.Sort(r.Unserved)
	slices.Sort(r.Hindered)
	return r, r.sort(o, listed, chosen)
}

// narrow returns an inventory with all presets as it is with the chosen ones. Problems of the others are kept: about functions
// that no chosen one lists, and others. They have "kind" and the preset's name, after the function's address if they are
// about one.
func (r *Result) narrow(all *inventory.Backend, presets, chosen []string) *inventory.Backend {
	b := *all
	isOther := func(preset string) bool { return slices.Contains(presets, preset) && !slices.Contains(chosen, preset) }
	b.Devices = slices.DeleteFunc(slices.Clone(all.Devices), func(d *inventory.Device) bool { return isOther(d.Class) })
	b.Problems = slices.DeleteFunc(slices.Clone(all.Problems), func(p inventory.Problem) bool {
		at, rest, _ := strings.Cut(p.Message, ": ")
		if !address.MatchString(at) {
			at, rest = "", p.Message
		}
		kind, isKind := strings.CutPrefix(rest, "kind ")
		preset, _, _ := strings.Cut(kind, ": ")
		switch {
		case !isKind || !isOther(preset):
			return false
		case at == "":
			r.Hindered = append(r.Hindered, p.Message)
		case !slices.ContainsFunc(b.Devices, func(d *inventory.Device) bool { return d.PCIBusID == at }):
			r.Unserved = append(r.Unserved, p.Message)
		}
		return true
	})
	return &b
}

var address = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// read reads the manifests of the programs. It returns the specs of those to start, with all presets in their settings,
// and the presets.
func (r *Result) read(o Options, programs []string) (specs []supervisor.Spec, presets map[string][]string, err error) {
	presets = map[string][]string{}
	there, err := pcibus.Backends(o.Paths.GetSysfs(), manifest.HardwareOf(o.BackendDir))
	hasBus := !errors.Is(err, fs.ErrNotExist)
	if err != nil && hasBus {
		return nil, nil, err
	}
	for _, file := range programs {
		name := strings.TrimPrefix(file, config.CommandPrefix)
		if name == mock {
			continue
		}
		program, err := plug.Find(o.BackendDir, file, plug.Pins{})
		if err != nil {
			r.Failed[name] = err.Error()
			continue
		}
		program.Close()
		if m := program.Manifest; hasBus && len(m.Hardware) > 0 && !there[m.Description.Name] {
			r.Idle = append(r.Idle, name)
			continue
		}
		spec := supervisor.Spec{Name: name, Command: file, Settings: json.RawMessage("{}"), Heartbeat: config.DefaultHeartbeat, Sandbox: sandbox.Policy{AcceptDeclared: true}}
		if presets[name] = slices.Sorted(maps.Keys(program.Manifest.Presets)); len(presets[name]) > 0 {
			spec.Settings = withPresets(presets[name])
		}
		specs = append(specs, spec)
	}
	return specs, presets, nil
}

func withPresets(names []string) json.RawMessage {
	text, _ := json.Marshal(map[string][]string{"presets": names}) // of texts
	return text
}

// sort puts backends and hardware where they belong.
func (r *Result) sort(o Options, listed map[string]*inventory.Backend, presets map[string][]string) error {
	hardware, err := pcibus.Read(o.Paths.GetSysfs(), manifest.HardwareOf(o.BackendDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a machine without a PCI bus
		return err
	}
	possible, err := pcibus.ReadPossible(o.Paths.GetSysfs())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	covered, unlisted := map[string]bool{}, map[string][]pcibus.Accelerator{}
	for _, b := range listed {
		for _, d := range b.Devices {
			covered[slot(d.PCIBusID)] = true
		}
	}
	for _, problem := range r.Unserved {
		covered[slot(problem)] = true
	}
	for _, a := range slices.Concat(hardware, possible) {
		if covered[slot(a.Address)] {
			continue
		}
		covered[slot(a.Address)] = true
		for _, name := range a.Backends {
			unlisted[name] = append(unlisted[name], a)
		}
		if !slices.ContainsFunc(a.Backends, func(name string) bool { return listed[name] != nil }) {
			r.Uncovered = append(r.Uncovered, a)
		}
	}
	for name, b := range listed {
		if len(b.Devices)+len(unlisted[name]) > 0 {
			r.Fitting = append(r.Fitting, Backend{Name: name, Presets: presets[name], Backend: b, Unlisted: unlisted[name]})
		} else {
			r.Idle = append(r.Idle, name)
		}
	}
	slices.SortFunc(r.Fitting, func(a, b Backend) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(r.Uncovered, func(a, b pcibus.Accelerator) int { return strings.Compare(a.Address, b.Address) })
	slices.Sort(r.Idle)
	return nil
}

// slot is the address of a PCI device without the function.
func slot(address string) string {
	at, _, _ := strings.Cut(address, ".")
	return at
}
