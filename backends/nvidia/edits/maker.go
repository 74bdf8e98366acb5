package edits

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Maker makes container edits. It may be used by several goroutines.
type Maker struct {
	log      *slog.Logger
	settings Settings
	root     place  // with the driver's files
	devfs    place  // with the host's device nodes
	devRoot  *place // from the settings; nil without one
	procfs   string
	// logged has the toolkit's last messages.
	logged atomic.Pointer[string]
	// files are the driver's files as last found.
	files atomic.Pointer[files]
}

// Set has the edits of all devices of one snapshot. It never changes.
type Set struct {
	// Problems are messages for the operator about options that this node cannot
	// provide.
	Problems []string

	results map[string]result
	err     error
}

type result struct {
	edits *sdk.Edits
	err   error
}

// Of returns the edits of the GPU or MIG device with this UUID. They must not be
// changed, since devices share parts. The error names what is missing and what to
// do; the device must not be healthy then.
func (s *Set) Of(uuid string) (*sdk.Edits, error) {
	if r, ok := s.results[uuid]; ok {
		return r.edits, r.err
	}
	return nil, fmt.Errorf("there is no device %s", uuid)
}

// Err returns the error of the first device that has one; nil if every device has its
// edits. After an error, make the set again at intervals: nodes and files may be
// created late.
func (s *Set) Err() error { return s.err }

// Make makes the edits of all GPUs and MIG devices of a snapshot. It reads
// directories below the driver root and the device nodes, and waits for
// them.
func (m *Maker) Make(s *driver.Snapshot) *Set { return m.Begin(s.DriverVersion).Make(s) }

// Begun is a set whose common part is being made in the background. Call Make or
// Wait.
type Begun struct {
	work    *work
	version string
	done    chan struct{}
	// common is what every device gets, err why it is missing; valid after done.
	common *sdk.Edits
	err    error
}

// Begin starts to make a set for a driver of this version. It returns at once, so
// that the GPUs can be read meanwhile: searching the driver's files takes as long.
func (m *Maker) Begin(version string) *Begun {
	b := &Begun{work: m.newWork(version, &Set{results: map[string]result{}}), version: version, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		b.common, b.err = b.work.common()
	}()
	return b
}

// Wait waits for the background work.
func (b *Begun) Wait() { <-b.done }

// Make is [Maker.Make]; it may be called once.
func (b *Begun) Make(s *driver.Snapshot) *Set {
	b.Wait()
	if s.DriverVersion != b.version {
		return b.work.Make(s)
	}
	w, set := b.work, b.work.set
	defer w.logMessages(w.log)
	w.nvml.know(s)
	for i := range s.GPUs {
		g := &s.GPUs[i]
		w.put(g.UUID, b.common, b.err, func() (*sdk.Edits, error) { return w.gpu(g) })
		for j := range g.Instances {
			in := &g.Instances[j]
			w.put(in.UUID, b.common, b.err, func() (*sdk.Edits, error) { return w.instance(g, in) })
		}
	}
	return set
}

// put stores the edits of a device: its own, and those common to all.
func (w *work) put(uuid string, common *sdk.Edits, err error, own func() (*sdk.Edits, error)) {
	if uuid == "" {
		return
	}
	s := w.set
	var e *sdk.Edits
	if err == nil {
		err = guard(func() (err error) { e, err = own(); return err })
	}
	if err != nil {
		err = fmt.Errorf("container edits of %s: %w", uuid, err)
		if s.err == nil {
			s.err = err
		}
		s.results[uuid] = result{err: err}
		return
	}
	// The hooks of all GPUs come first, as in the specs of NVIDIA's tools: they run once in
	// a container with several devices.
	e = merge(&sdk.Edits{Hooks: common.GetHooks()}, e, common)
	if w.settings.OmitDeviceNodes {
		e.DeviceNodes = nil
		e.Env[envNodes] = "by-runtime"
	}
	s.results[uuid] = result{edits: e}
}

// work is the state while one set is made.
type work struct {
	*Maker
	set   *Set
	at    places
	nodes *nodes
	nvml  *library
	log   *logger
}

// newWork determines where the device nodes are: in the host's /dev, or below the driver
// root, where a driver container may have them instead.
func (m *Maker) newWork(version string, set *Set) *work {
	w := &work{Maker: m, set: set, at: places{root: m.root, dev: m.devfs}, nvml: &library{version: version}, log: newLogger()}
	if resolved, err := filepath.EvalSymlinks(m.root.here); err == nil {
		w.at.root.here = resolved // nvcdi resolves links too
	}
	switch {
	case m.devRoot != nil:
		w.at.dev = *m.devRoot
	case !exists(filepath.Join(m.devfs.here, controlNodes[0])) && exists(filepath.Join(m.root.here, controlNodes[0])):
		w.at.dev = w.at.root
	}
	w.nodes = newNodes(w.at.dev, m.procfs, w.log)
	return w
}

// problem adds a message for the operator, once.
func (w *work) problem(text string) {
	if !slices.Contains(w.set.Problems, text) {
		w.set.Problems = append(w.set.Problems, text)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// common returns the edits that every device gets.
func (w *work) common() (*sdk.Edits, error) {
	if w.settings.Mode == modeTegra {
		return w.tegra()
	}
	control, err := w.nodes.control()
	if err != nil {
		return nil, err
	}
	parts := []*sdk.Edits{{DeviceNodes: control}}
	if w.settings.Mode == modeCDI {
		files, err := w.driverFiles()
		if err != nil {
			return nil, err
		}
		parts = append(parts, files)
	}
	options, err := w.options()
	return merge(append(parts, options...)...), err
}

// driverFiles returns the driver's libraries, programs and firmware, and the hooks
// that set them up in a container.
func (w *work) driverFiles() (out *sdk.Edits, err error) {
	if kept := w.files.Load(); kept.hold(w.nvml.version, w.at, time.Now()) {
		maps.Copy(w.log.lines, kept.logged)
		return kept.edits, nil
	}
	var here []string
	problems := len(w.set.Problems)
	err = guard(func() error {
		lib, err := w.nvcdi(nvcdi.ModeNvml)
		if err != nil {
			return err
		}
		e, err := lib.GetCommonEdits()
		if err != nil {
			return err
		}
		here = paths(e.ContainerEdits)
		out, err = w.at.convert(e.ContainerEdits, w.problem)
		return err
	})
	if err == nil && !hasLibrary(out) {
		err = errors.New("libcuda.so is not there")
	}
	if err != nil {
		return nil, fmt.Errorf("no driver files below the driver root %s (seen as %s): %w; set driverRoot to where the driver is installed on the host",
			w.at.root.host, w.at.root.here, err)
	}
	if len(w.set.Problems) == problems {
		w.files.Store(&files{
			edits: out, version: w.nvml.version, at: w.at, here: here, logged: maps.Clone(w.log.lines), until: time.Now().Add(filesLife),
		})
	}
	return out, nil
}

func hasLibrary(e *sdk.Edits) bool {
	for _, m := range e.GetMounts() {
		if isDriverLibrary(m.GetContainerPath()) {
			return true
		}
	}
	return false
}

func isDriverLibrary(path string) bool { return strings.HasPrefix(filepath.Base(path), "libcuda.so") }

func (w *work) nvcdi(mode nvcdi.Mode, more ...nvcdi.Option) (nvcdi.Interface, error) {
	return nvcdi.New(append(more,
		nvcdi.WithMode(mode),
		nvcdi.WithLogger(w.log),
		nvcdi.WithNvmlLib(w.nvml),
		nvcdi.WithDriverRoot(w.at.root.here),
		nvcdi.WithDevRoot(w.at.dev.here),
		nvcdi.WithNVIDIACDIHookPath(w.settings.Hook),
		nvcdi.WithDisabledHooks(w.settings.DisabledHooks...),
		// nvsandboxutils is another driver library that may hang, and adds no information.
		nvcdi.WithFeatureFlags(nvcdi.FeatureDisableNvsandboxUtils),
	)...)
}

// gpu returns the edits of a whole GPU.
func (w *work) gpu(g *driver.GPU) (*sdk.Edits, error) {
	if w.settings.Mode == modeTegra {
		if g.Index != 0 {
			return nil, errors.New("the mode tegra serves only the GPU that NVML lists first, which is that of the Tegra")
		}
		return w.visible(g.UUID, strconv.Itoa(g.Index)), nil
	}
	d, err := w.nodes.gpu(g)
	if err != nil {
		return nil, err
	}
	own := merge(&sdk.Edits{DeviceNodes: []*sdk.DeviceNode{d}}, w.visible(g.UUID, strconv.Itoa(g.Index)))
	if w.settings.Mode == modeRuntime {
		return own, nil
	}
	more, err := w.devices(nvcdi.ModeNvml, g.UUID)
	if err != nil {
		return nil, err
	}
	return merge(append([]*sdk.Edits{own}, more...)...), nil
}

// instance returns the edits of a MIG device. nvcdi would read the capabilities from
// this process's own /proc. It is only used for instances that can draw: they get
// the GPU's nodes for that.
func (w *work) instance(g *driver.GPU, i *driver.Instance) (*sdk.Edits, error) {
	if w.settings.Mode == modeTegra {
		return nil, errors.New("the mode tegra has no MIG devices")
	}
	list, err := w.nodes.instance(g, i)
	if err != nil {
		return nil, err
	}
	own := merge(&sdk.Edits{DeviceNodes: list}, w.visible(i.UUID, fmt.Sprintf("%d:%d", g.Index, i.Index)))
	if w.settings.Mode == modeRuntime {
		return own, nil
	}
	if _, attributes, ok := strings.Cut(i.Profile, "+"); !ok || !strings.Contains(attributes, "gfx") {
		return own, nil
	}
	more, err := w.devices(nvcdi.ModeNvml, g.UUID)
	if err != nil {
		return nil, err
	}
	for _, e := range more {
		own = merge(own, &sdk.Edits{DeviceNodes: e.GetDeviceNodes(), AdditionalGids: e.GetAdditionalGids()})
	}
	return own, nil
}

// devices returns nvcdi's edits of some devices.
func (w *work) devices(mode nvcdi.Mode, ids ...string) ([]*sdk.Edits, error) {
	lib, err := w.nvcdi(mode)
	if err != nil {
		return nil, err
	}
	list, err := lib.GetDeviceSpecsByID(ids...)
	if err != nil {
		return nil, err
	}
	var out []*sdk.Edits
	for i := range list {
		e, err := w.checked(&list[i])
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// checked converts the edits of one device. It refuses an empty device, which nvcdi
// returns when nodes are missing.
func (w *work) checked(d *specs.Device) (*sdk.Edits, error) {
	e := &cdi.ContainerEdits{ContainerEdits: &d.ContainerEdits}
	if err := e.Validate(); err != nil {
		return nil, err
	}
	return w.at.convert(&d.ContainerEdits, w.problem)
}
