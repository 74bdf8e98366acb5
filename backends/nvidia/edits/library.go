package edits

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
)

// library answers what nvcdi asks of NVML from a snapshot. It has no more than
// nvcdi needs for whole GPUs in the mode "nvml"; what it lacks is a nil pointer,
// which [guard] turns into an error.
type library struct {
	nvml.Interface
	version string
	gpus    map[string]*driver.GPU
}

// know makes the GPUs of a snapshot known.
func (l *library) know(s *driver.Snapshot) {
	l.gpus = map[string]*driver.GPU{}
	for i := range s.GPUs {
		l.gpus[s.GPUs[i].UUID] = &s.GPUs[i]
	}
}

func (l *library) Init() nvml.Return     { return nvml.SUCCESS }
func (l *library) Shutdown() nvml.Return { return nvml.SUCCESS }

func (l *library) SystemGetDriverVersion() (string, nvml.Return) {
	if l.version == "" {
		return "", nvml.ERROR_UNKNOWN
	}
	return l.version, nvml.SUCCESS
}

func (l *library) DeviceGetHandleByUUID(uuid string) (nvml.Device, nvml.Return) {
	g, ok := l.gpus[uuid]
	if !ok {
		return nil, nvml.ERROR_NOT_FOUND
	}
	return handle{gpu: g}, nvml.SUCCESS
}

// handle is one GPU of a library.
type handle struct {
	nvml.Device
	gpu *driver.GPU
}

func (h handle) GetIndex() (int, nvml.Return)           { return h.gpu.Index, nvml.SUCCESS }
func (h handle) GetUUID() (string, nvml.Return)         { return h.gpu.UUID, nvml.SUCCESS }
func (h handle) IsMigDeviceHandle() (bool, nvml.Return) { return false, nvml.SUCCESS }

func (h handle) GetMinorNumber() (int, nvml.Return) {
	if h.gpu.Minor < 0 {
		return 0, nvml.ERROR_NOT_SUPPORTED
	}
	return h.gpu.Minor, nvml.SUCCESS
}

// GetPciInfo has the bus ID alone, by which nvcdi finds the nodes for drawing; a
// GPU whose bus ID is not known does without them.
func (h handle) GetPciInfo() (info nvml.PciInfo, _ nvml.Return) {
	if len(h.gpu.PCIBusID) < len(info.BusId) {
		for i, c := range []byte(h.gpu.PCIBusID) {
			info.BusId[i] = int8(c) //nolint:gosec // ASCII
		}
	}
	return info, nvml.SUCCESS
}

// guard calls f; a panic in it is an error. The code behind f is NVIDIA's, and a
// later version of it may ask a library for more than it has.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("nvidia-container-toolkit failed: %v", r)
		}
	}()
	return f()
}

// logger keeps what the toolkit says, each line once. It warns of every file that
// a driver may have and this one lacks, which is dozens of lines each time.
type logger struct{ lines map[string]bool }

func newLogger() *logger { return &logger{map[string]bool{}} }

func (l *logger) Debugf(string, ...any)               {}
func (l *logger) Tracef(string, ...any)               {}
func (l *logger) Infof(format string, args ...any)    { l.keep(format, args) }
func (l *logger) Warningf(format string, args ...any) { l.keep(format, args) }
func (l *logger) Errorf(format string, args ...any)   { l.keep(format, args) }

func (l *logger) keep(format string, args []any) {
	l.lines[strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")] = true
}

// told writes what the toolkit said at debug, unless it said the same the last
// time.
func (m *Maker) told(l *logger) {
	text := strings.Join(slices.Sorted(maps.Keys(l.lines)), "; ")
	if before := m.said.Swap(&text); before == nil || *before != text {
		m.log.Debug("what the container toolkit said of the driver's files", "text", text)
	}
}
