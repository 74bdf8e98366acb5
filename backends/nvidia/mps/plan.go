package mps

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Plan is what one daemon does. It never changes.
type Plan struct {
	root, program   string
	pipeDir, logDir string
	// threads is in percent; 0 for no limit.
	threads uint64
	// memory is in MiB, by the UUID of the GPU; 0 for no limit.
	memory map[string]uint64
}

// Plan is the plan for GPUs: the bytes of memory that each has, 0 if unknown, by
// UUID. It is nil if there are none.
func (c *Config) Plan(gpus map[string]uint64) *Plan {
	if len(gpus) == 0 {
		return nil
	}
	s, replicas := c.settings, uint64(c.settings.Replicas)
	p := &Plan{
		root: c.root.Here, program: s.Program, pipeDir: s.PipeDir, logDir: s.LogDir,
		memory: map[string]uint64{},
	}
	if !s.Threads.Off {
		p.threads = s.Threads.Value
		if p.threads == 0 {
			p.threads = 100 / replicas
		}
	}
	for uuid, bytes := range gpus {
		p.memory[uuid] = 0
		switch {
		case s.Memory.Off:
		case s.Memory.Value > 0:
			p.memory[uuid] = s.Memory.Value / mebibyte
		default:
			p.memory[uuid] = bytes / replicas / mebibyte
		}
	}
	return p
}

// equal reports whether a daemon for p is one for o too.
func (p *Plan) equal(o *Plan) bool {
	return p.alike(o) && (p == nil || maps.Equal(p.memory, o.memory))
}

// alike reports whether GPUs that are in both plans are shared in the same way.
func (p *Plan) alike(o *Plan) bool {
	if p == nil || o == nil {
		return p == o
	}
	return p.root == o.root && p.program == o.program && p.pipeDir == o.pipeDir &&
		p.logDir == o.logDir && p.threads == o.threads
}

// serves reports whether a daemon for p shares the GPU as o wants it.
func (p *Plan) serves(uuid string, o *Plan) bool {
	if p == nil || o == nil || !p.alike(o) {
		return false
	}
	now, there := p.memory[uuid]
	want, wanted := o.memory[uuid]
	return there && wanted && now == want
}

func (p *Plan) uuids() []string { return slices.Sorted(maps.Keys(p.memory)) }

// environment is that of the daemon, and of the program that speaks to it.
func (p *Plan) environment() []string {
	return []string{
		"PATH=/usr/local/nvidia/bin:/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"LC_ALL=C",
		// By UUID, since numbers count differently in a container.
		"CUDA_VISIBLE_DEVICES=" + strings.Join(p.uuids(), ","),
		"CUDA_MPS_PIPE_DIRECTORY=" + p.pipeDir,
		"CUDA_MPS_LOG_DIRECTORY=" + p.logDir,
	}
}

// limits are the commands that set the limits of every process.
func (p *Plan) limits() []string {
	var commands []string
	for _, uuid := range p.uuids() {
		if mib := p.memory[uuid]; mib > 0 {
			commands = append(commands, fmt.Sprintf("set_default_device_pinned_mem_limit %s %dM", uuid, mib))
		}
	}
	if p.threads > 0 {
		commands = append(commands, "set_default_active_thread_percentage "+strconv.FormatUint(p.threads, 10))
	}
	return commands
}

// places are where distributions and driver containers put the program, in the
// driver's root.
var places = []string{
	"/usr/bin/nvidia-cuda-mps-control", "/usr/local/nvidia/bin/nvidia-cuda-mps-control",
	"/opt/bin/nvidia-cuda-mps-control", "/bin/nvidia-cuda-mps-control",
}

// find is the program's path in the driver's root.
func (p *Plan) find() (string, error) {
	paths := places
	if p.program != "" {
		paths = []string{p.program}
	}
	for _, path := range paths {
		info, err := os.Stat(filepath.Join(p.root, path))
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("nvidia-cuda-mps-control is not in the driver's root %s (looked for %s): install it there, or set mps.program",
		p.root, strings.Join(paths, ", "))
}

// prepare makes the daemon's directories. Processes of all users go through them.
func (p *Plan) prepare() error {
	for _, dir := range []string{p.pipeDir, p.logDir} {
		if err := os.MkdirAll(filepath.Join(p.root, dir), 0o755); err != nil {
			return fmt.Errorf("make a directory for the MPS control daemon: %w; this process must be able to write there", err)
		}
	}
	return nil
}
