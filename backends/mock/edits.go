package mock

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/sdk"
)

// edits are what a container gets with a device.
type edits struct {
	Env           map[string]string `json:"env"`           // name and value: T
	EnvSeparators map[string]string `json:"envSeparators"` // name: T
	DeviceNodes   []deviceNode      `json:"deviceNodes"`   // paths: T
	Mounts        []mount           `json:"mounts"`        // paths: T
}

type deviceNode struct {
	Path        string `json:"path"`
	HostPath    string `json:"hostPath"`
	Permissions string `json:"permissions"`
}

type mount struct {
	HostPath      string `json:"hostPath"`
	ContainerPath string `json:"containerPath"`
}

// defaultEdits can be applied on every Linux host.
var defaultEdits = edits{
	Env:         map[string]string{"ACCELMUX_MOCK_{{.EnvName}}": "{{.ID}}"},
	DeviceNodes: []deviceNode{{Path: "/dev/accelmux-mock/{{.ID}}", HostPath: "/dev/null", Permissions: "rw"}},
}

// fill replaces the placeholders of e for one device.
func (e *edits) fill(f facts) (wire *sdk.Edits, err error) {
	r := f.renderer()
	wire = &sdk.Edits{}
	for name, text := range e.Env {
		if wire.Env == nil {
			wire.Env = map[string]string{}
		}
		if value := r.text(text); !strings.Contains(value, noValue) {
			wire.Env[r.name(name)] = value
		}
	}
	for name, separator := range e.EnvSeparators {
		if wire.EnvSeparators == nil {
			wire.EnvSeparators = map[string]string{}
		}
		wire.EnvSeparators[r.name(name)] = separator
	}
	for _, n := range e.DeviceNodes {
		wire.DeviceNodes = append(wire.DeviceNodes, &sdk.DeviceNode{
			Path: r.name(n.Path), HostPath: r.name(n.HostPath), Permissions: n.Permissions,
		})
	}
	for _, m := range e.Mounts {
		wire.Mounts = append(wire.Mounts, &sdk.Mount{HostPath: r.name(m.HostPath), ContainerPath: r.name(or(m.ContainerPath, m.HostPath))})
	}
	return wire, r.err
}

// facts are what the placeholders of one device stand for.
type facts struct {
	index      int    // of the device, from 0, over all groups
	groupIndex int    // of the device in its group, from 0
	id         string // empty in the ID itself
	holder     string // ID of the holder, in the edits of Prepare; else empty
	// parameters are those of Prepare, and amounts what the holder has of each shared capacity, noValue for none;
	// nil but in the edits of Prepare.
	parameters *parameters
	amounts    map[string]string
}

// renderer replaces placeholders and keeps the first error.
type renderer struct {
	replacer *strings.Replacer
	err      error
}

func (f facts) renderer() *renderer {
	all := []string{
		"{{.Index}}", strconv.Itoa(f.index), "{{.Number}}", strconv.Itoa(f.index + 1), "{{.GroupIndex}}", strconv.Itoa(f.groupIndex),
		"{{.ID}}", f.id, "{{.EnvName}}", envName(f.id), "{{.Holder}}", f.holder,
	}
	if f.parameters != nil {
		for name, value := range f.parameters.placeholders() {
			all = append(all, "{{.Parameter."+name+"}}", value)
		}
	}
	for name, value := range f.amounts {
		all = append(all, "{{.Capacity."+name+"}}", value)
	}
	return &renderer{replacer: strings.NewReplacer(all...)}
}

// name is a text that must not depend on what may have no value.
func (r *renderer) name(text string) string {
	out := r.text(text)
	if r.err == nil && strings.Contains(out, noValue) {
		r.err = fmt.Errorf("%q has a placeholder of a parameter or a capacity, which only values of env may have", text)
	}
	return out
}

func (r *renderer) text(text string) string {
	out := r.replacer.Replace(text)
	if r.err == nil && strings.Contains(out, "{{") {
		r.err = fmt.Errorf("%q has an unknown placeholder; there are: {{.Index}}, {{.Number}}, {{.GroupIndex}}, {{.ID}}, {{.EnvName}}, {{.Holder}}, and in prepare.edits.env {{.Parameter.<name>}}, {{.Capacity.<name>}}", text)
	}
	return out
}

// envName makes a device ID a part of an environment variable's name: upper
// case, with every character but letters and digits replaced by "_", and
// without a leading "MOCK_".
func envName(id string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, id)
	return strings.TrimPrefix(name, "MOCK_")
}
