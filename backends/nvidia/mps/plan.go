package mps

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Plan is the configuration of the daemon. It never changes. A backend sends it to the companion
// as JSON. The two may have different versions: fields are only ever added.
type Plan struct {
	// Threads is the limit of a process in percent; 0 for none.
	Threads uint64 `json:"threads"`
	// Memory is the limit of a process in MiB, by the UUID of the GPU; 0 for none.
	Memory map[string]uint64 `json:"memory"`
	// Exclusive: only MPS uses the GPUs, by the compute mode EXCLUSIVE_PROCESS.
	Exclusive bool `json:"exclusive"`

	socket string // of the companion
}

// status is what the companion sends, at least once in every interval of checks.
type status struct {
	// Running is the plan of the daemon that is ready; nil if none is.
	Running *Plan `json:"running,omitempty"`
	// Why is the reason if none is ready.
	Why string `json:"why,omitempty"`
}

// Plan returns the plan for GPUs; nil if there are none. gpus has the bytes of memory of each
// GPU by UUID, 0 if unknown.
func (c *Config) Plan(gpus map[string]uint64) *Plan {
	if len(gpus) == 0 {
		return nil
	}
	p := &Plan{Memory: map[string]uint64{}, Exclusive: c.settings.exclusive(), socket: c.socket()}
	for uuid, bytes := range gpus {
		share := c.Share(bytes)
		if c.Claims() { // a claim may have more
			share = Share{}
		}
		p.Memory[uuid], p.Threads = share.Memory/mebibyte, share.Threads
	}
	return p
}

// equal reports whether a daemon for p also meets o.
func (p *Plan) equal(o *Plan) bool {
	return p.alike(o) && (p == nil || maps.Equal(p.Memory, o.Memory))
}

// alike reports whether GPUs that are in both plans are shared in the same way.
func (p *Plan) alike(o *Plan) bool {
	if p == nil || o == nil {
		return p == o
	}
	return p.Threads == o.Threads && p.Exclusive == o.Exclusive
}

// serves reports whether a daemon for p shares the GPU as o requires.
func (p *Plan) serves(uuid string, o *Plan) bool {
	if p == nil || o == nil || !p.alike(o) {
		return false
	}
	now, there := p.Memory[uuid]
	want, wanted := o.Memory[uuid]
	return there && wanted && now == want
}

func (p *Plan) uuids() []string { return slices.Sorted(maps.Keys(p.Memory)) }

// limits returns the commands that set the limits of every process.
func (p *Plan) limits() []string {
	var commands []string
	for _, uuid := range p.uuids() {
		if mib := p.Memory[uuid]; mib > 0 {
			commands = append(commands, fmt.Sprintf("set_default_device_pinned_mem_limit %s %dM", uuid, mib))
		}
	}
	if p.Threads > 0 {
		commands = append(commands, "set_default_active_thread_percentage "+strconv.FormatUint(p.Threads, 10))
	}
	return commands
}
