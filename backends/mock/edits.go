package mock

import (
	"path"
	"regexp"
	"text/template"

	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// edits are templates of what a container gets with a device.
type edits struct {
	Env            map[string]string `json:"env"`           // name and value: T
	EnvSeparators  map[string]string `json:"envSeparators"` // name: T
	DeviceNodes    []deviceNode      `json:"deviceNodes"`   // paths: T
	Mounts         []mount           `json:"mounts"`        // paths: T
	Hooks          []ociHook         `json:"hooks"`
	AdditionalGIDs []uint32          `json:"additionalGids"`
}

type deviceNode struct {
	Path        string `json:"path"`
	HostPath    string `json:"hostPath"`
	Permissions string `json:"permissions"`
}

type mount struct {
	HostPath      string   `json:"hostPath"`
	ContainerPath string   `json:"containerPath"`
	Writable      bool     `json:"writable"`
	Options       []string `json:"options"`
	// Create makes an empty file at the host path if there is nothing.
	Create bool `json:"create"`
}

type ociHook struct {
	HookName string   `json:"hookName"`
	Path     string   `json:"path"`
	Args     []string `json:"args"`
	Env      []string `json:"env"`
}

// defaultEdits can be applied on every Linux host.
var defaultEdits = edits{
	Env:         map[string]string{"ACCELMUX_MOCK_{{.EnvName}}": "{{.ID}}"},
	DeviceNodes: []deviceNode{{Path: "/dev/accelmux-mock/{{.ID}}", HostPath: "/dev/null", Permissions: "rw"}},
}

// envVar is what the contract allows as a name of an environment variable.
var envVar = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// fill renders the templates of e for one device. What is wrong is added to
// errs, once for a field.
func (e *edits) fill(r *renderer, at string) (wire *sdk.Edits, create []string) {
	wire = &sdk.Edits{AdditionalGids: e.AdditionalGIDs}
	for name, text := range e.Env {
		if wire.Env == nil {
			wire.Env = map[string]string{}
		}
		n := r.text(name, field(at, "env"))
		if !envVar.MatchString(n) {
			r.add(field(at, "env"), "%q is no name of an environment variable", n)
		}
		wire.Env[n] = r.text(text, field(at, "env"))
	}
	for name, separator := range e.EnvSeparators {
		if wire.EnvSeparators == nil {
			wire.EnvSeparators = map[string]string{}
		}
		n := r.text(name, field(at, "envSeparators"))
		if _, ok := wire.Env[n]; !ok {
			r.add(field(at, "envSeparators"), "%q is not in env", n)
		}
		if separator == "" || len(separator) > maxSeparator {
			r.add(field(field(at, "envSeparators"), name), "%q is empty or longer than %d bytes", separator, maxSeparator)
		}
		wire.EnvSeparators[n] = separator
	}
	for _, n := range e.DeviceNodes {
		at := field(at, "deviceNodes")
		wire.DeviceNodes = append(wire.DeviceNodes, &sdk.DeviceNode{
			Path:        r.path(n.Path, at, true),
			HostPath:    r.path(n.HostPath, at, false),
			Permissions: n.Permissions,
		})
	}
	for _, m := range e.Mounts {
		at := field(at, "mounts")
		w := &sdk.Mount{
			HostPath:      r.path(m.HostPath, at, true),
			ContainerPath: r.path(m.ContainerPath, at, false),
			Writable:      m.Writable,
			Options:       m.Options,
		}
		if w.ContainerPath == "" {
			w.ContainerPath = w.HostPath
		}
		wire.Mounts = append(wire.Mounts, w)
		if m.Create {
			create = append(create, w.HostPath)
		}
	}
	for _, h := range e.Hooks {
		wire.Hooks = append(wire.Hooks, &backendv1.OciHook{HookName: h.HookName, Path: h.Path, Args: h.Args, Env: h.Env})
	}
	return wire, create
}

// renderer fills in templates for one device and collects what is wrong.
type renderer struct {
	facts facts
	cache map[string]*template.Template
	errs  *sdk.FieldErrors
}

func newRenderer(f facts, errs *sdk.FieldErrors) *renderer {
	return &renderer{facts: f, cache: map[string]*template.Template{}, errs: errs}
}

// checkEdits tries templates on a device as good as any.
func checkEdits(e *edits, at string, errs *sdk.FieldErrors) {
	e.fill(newRenderer(facts{ID: "mock-0", EnvName: "0", Number: 1, Class: defaultClass, Model: defaultModel}, errs), at)
}

func (r *renderer) add(field, format string, args ...any) {
	for _, e := range *r.errs {
		if e.Field == field {
			return // one complaint for a field: thousands of devices share it
		}
	}
	r.errs.Add(field, format, args...)
}

func (r *renderer) text(text, at string) string {
	s, err := render(text, &r.facts, r.cache)
	if err != nil {
		r.add(at, "%s", err)
	}
	return s
}

// path must be absolute and clean, or empty if it is not required.
func (r *renderer) path(text, at string, required bool) string {
	p := r.text(text, at)
	if p == "" && !required {
		return ""
	}
	if !path.IsAbs(p) || path.Clean(p) != p {
		r.add(at, "%q must be an absolute path without . or ..", p)
	}
	return p
}
