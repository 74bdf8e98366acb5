package edits

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
)

// library is the part of NVML that nvcdi needs for whole GPUs in the mode "nvml"; it
// reads a snapshot. All other functions are nil pointers, and [guard] turns a call of
// one into an error.
type library struct {
	nvml.Interface
	version string
	gpus    map[string]*driver.GPU
}

// know sets the GPUs to those of a snapshot.
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

// GetPciInfo returns only the bus ID, by which nvcdi finds the nodes for drawing. A
// GPU without a known bus ID gets no such nodes.
func (h handle) GetPciInfo() (info nvml.PciInfo, _ nvml.Return) {
	if len(h.gpu.PCIBusID) < len(info.BusId) {
		for i, c := range []byte(h.gpu.PCIBusID) {
			info.BusId[i] = int8(c) //nolint:gosec // ASCII
		}
	}
	return info, nvml.SUCCESS
}

// guard calls f and turns a panic into an error. f runs NVIDIA's code, and a later
// version of that may call functions that library lacks.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("nvidia-container-toolkit failed: %v", r)
		}
	}()
	return f()
}

// logger collects the toolkit's messages, each once. The toolkit warns of every file that
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

// logMessages logs the toolkit's messages at debug level, unless they are those of the last
// call.
func (m *Maker) logMessages(l *logger) {
	text := strings.Join(slices.Sorted(maps.Keys(l.lines)), "; ")
	if before := m.logged.Swap(&text); before == nil || *before != text {
		m.log.Debug("messages of the container toolkit about the driver's files", "text", text)
	}
}
