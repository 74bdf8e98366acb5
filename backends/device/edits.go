package device

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/device/description"
	"github.com/accelmux/accelmux/backends/device/expression"
	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/devnode"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// edits returns what a container gets with a device. The error says what of it is missing.
func (s source) edits(objects []*expression.Scope) (*sdk.Edits, error) {
	e := &sdk.Edits{}
	for _, o := range objects {
		nodes := s.kind.Nodes
		if len(nodes) == 0 && o.Object.Node != "" && len(s.kind.Match.OwnNodes()) > 0 {
			nodes = []description.CompiledNode{{Path: nil}}
		}
		for _, n := range nodes {
			if err := s.addNode(e, o, n); err != nil {
				return nil, err
			}
		}
		if err := s.addMounts(e, o); err != nil {
			return nil, err
		}
		if err := s.addNetDevices(e, o); err != nil {
			return nil, err
		}
		if err := s.addEnv(e, o); err != nil {
			return nil, err
		}
	}
	if len(e.DeviceNodes)+len(e.Mounts)+len(e.NetDevices) == 0 && len(e.Env) == len(e.EnvSeparators) {
		switch {
		case s.binds():
			return nil, errors.New("its device node is there only when it is bound to its driver: give the kind edits.env, too")
		case len(s.kind.Nodes) > 0:
			return nil, errors.New("none of its device nodes is there" + cmp.Or(noDriver(objects[0].Object), ": is its driver loaded?"))
		}
		return nil, errors.New("the kernel has no device node by which a container could use it" + cmp.Or(noDriver(objects[0].Object), ": give the kind edits.nodes"))
	}
	slices.Sort(e.AdditionalGids)
	e.AdditionalGids = slices.Compact(e.AdditionalGids)
	return e, nil
}

// noDriver returns the end of a message for hardware without a driver, which would make its device node; empty
// for other hardware.
func noDriver(o *match.Object) string {
	if p, err := o.Port(); err == nil {
		if unauthorized(o) != nil {
			return fmt.Sprintf(": the USB device %s is not authorized", p.Name)
		}
		if bound, err := p.Names("*:*/driver"); err == nil && len(bound) == 0 { // of its interfaces
			return fmt.Sprintf(": no driver is bound to the USB device %s; load its module", p.Name)
		}
	} else if f, err := o.Function(); err == nil {
		if driver, err := f.Driver(); err == nil && driver == "" {
			return fmt.Sprintf(": no driver is bound to %s; load its module, or bind it", f.Name)
		}
	}
	return ""
}

// addNode adds a node of the description, or the object's own for one without a path.
func (s source) addNode(e *sdk.Edits, o *expression.Scope, n description.CompiledNode) (err error) {
	paths := []string{o.Object.Node}
	if n.Path != nil {
		paths, err = n.Path.Texts(o)
	} else if !slices.ContainsFunc(s.kind.Match.OwnNodes(), func(p string) bool { ok, _ := path.Match(p, paths[0]); return ok }) {
		return fmt.Errorf("its device node is %s, which is not where nodes of the kind are expected: give the kind edits: {nodes: [{path: %s}]}", paths[0], paths[0])
	}
	optional := n.Optional || s.binds()
	if errors.Is(err, fs.ErrNotExist) && optional {
		return nil
	}
	if err != nil {
		return err
	}
	if len(paths) == 0 && !optional {
		return fmt.Errorf("the kernel has no device node for %s%s", n.Node.Path, noDriver(o.Object))
	}
	inside := ""
	if n.ContainerPath != nil {
		if inside, err = n.ContainerPath.Text(o); err != nil {
			return err
		}
		if len(paths) > 1 {
			return fmt.Errorf("%d device nodes would have the path %s in the container: leave containerPath out", len(paths), inside)
		}
	}
	for _, at := range paths {
		if !strings.HasPrefix(at, "/dev/") || path.Clean(at) != at {
			return fmt.Errorf("the device node %q is not below /dev", at)
		}
		info, err := os.Stat(s.onHost(at))
		if errors.Is(err, fs.ErrNotExist) && optional {
			continue
		}
		nodes := []string{at}
		if err == nil && info.IsDir() {
			if nodes, err = s.finder.Nodes(at); err != nil {
				return err
			}
			if len(nodes) == 0 && !optional {
				return fmt.Errorf("the directory %s has no device nodes", at)
			}
		}
		for _, node := range nodes {
			as := &sdk.DeviceNode{Path: node, Permissions: n.Permissions}
			if inside != "" {
				as.Path = inside + strings.TrimPrefix(node, at) // below a directory
			}
			if err := s.add(e, o, as, node); err != nil {
				return err
			}
		}
	}
	return nil
}

// add adds one node.
func (s source) add(e *sdk.Edits, o *expression.Scope, as *sdk.DeviceNode, at string) error {
	node := devnode.Node{Path: at}
	if at == o.Object.Node {
		node.Number = o.Object.Number
	}
	one, err := s.cfg.Edits.Edits(s.cfg.host.Devfs, node)
	if err != nil {
		return err
	}
	if as.GetPath() != at {
		as.HostPath = at
	}
	same := slices.IndexFunc(e.DeviceNodes, func(other *sdk.DeviceNode) bool { return other.GetPath() == as.GetPath() })
	if same < 0 {
		e.DeviceNodes = append(e.DeviceNodes, as)
		e.AdditionalGids = append(e.AdditionalGids, one.GetAdditionalGids()...)
	} else if other := e.DeviceNodes[same]; other.GetHostPath() != as.GetHostPath() {
		return fmt.Errorf("%s and %s would both be %s in the container: give them different paths there", cmp.Or(other.GetHostPath(), other.GetPath()), at, as.GetPath())
	}
	return nil
}

// onHost is where a path below /dev is for this process.
func (s source) onHost(at string) string {
	return filepath.Join(s.cfg.host.Devfs, strings.TrimPrefix(at, "/dev/"))
}

func (s source) addMounts(e *sdk.Edits, o *expression.Scope) error {
	for _, m := range s.kind.Mounts {
		at, err := m.Path.Text(o)
		if err != nil {
			return err
		}
		inside := at
		if m.ContainerPath != nil {
			if inside, err = m.ContainerPath.Text(o); err != nil {
				return err
			}
		}
		if !path.IsAbs(at) || path.Clean(at) != at || !path.IsAbs(inside) || path.Clean(inside) != inside {
			return fmt.Errorf("the mount of %q to %q must have absolute paths without . and .. in them", at, inside)
		}
		same := slices.IndexFunc(e.Mounts, func(other *sdk.Mount) bool { return other.GetContainerPath() == inside })
		if same < 0 {
			e.Mounts = append(e.Mounts, &sdk.Mount{HostPath: at, ContainerPath: inside, Writable: m.Writable, Optional: m.Optional})
		} else if other := e.Mounts[same]; other.GetHostPath() != at {
			return fmt.Errorf("%s and %s would both be mounted at %s in the container: give them different paths there", other.GetHostPath(), at, inside)
		}
	}
	return nil
}

func (s source) addNetDevices(e *sdk.Edits, o *expression.Scope) error {
	for _, n := range s.kind.NetDevices {
		host, err := n.Host.Text(o)
		if err != nil {
			return err
		}
		inside := ""
		if n.Name != nil {
			if inside, err = n.Name.Text(o); err != nil {
				return err
			}
		}
		e.NetDevices = append(e.NetDevices, &sdk.NetDevice{HostName: host, Name: inside})
	}
	return nil
}

// addEnv adds variables. Of several objects of one device the first sets a variable; joined
// ones have the values of all.
func (s source) addEnv(e *sdk.Edits, o *expression.Scope) error {
	for name, t := range s.kind.Env {
		value, err := t.Text(o)
		if err != nil {
			return err
		}
		if e.Env == nil {
			e.Env = map[string]string{}
		}
		e.Env[name] = cmp.Or(e.Env[name], value)
	}
	for name, j := range s.kind.JoinedEnv {
		value, err := j.Value.Text(o)
		if err != nil {
			return err
		}
		if before, ok := e.Env[name]; ok && !slices.Contains(strings.Split(before, j.Separator), value) {
			value = before + j.Separator + value
		} else if ok {
			value = before
		}
		sdk.JoinedEnv(e, name, value, j.Separator)
	}
	return nil
}

// binds reports whether the nodes of a device are there only once it is prepared.
func (s source) binds() bool {
	return slices.ContainsFunc(s.kind.Prepare, func(step description.CompiledStep) bool { return step.Bind != nil })
}

// attribute returns the value of an expression as an attribute; nil for an empty list, which
// is no attribute.
func attribute(value any) *sdk.Attribute {
	switch v := value.(type) {
	case int64:
		return sdk.Int(v)
	case bool:
		return sdk.Bool(v)
	case expression.Version:
		return sdk.Version(cmp.Or(sdk.Semantic(string(v)), string(v)))
	case []string:
		if len(v) == 0 {
			return nil
		}
		return &sdk.Attribute{Value: &backendv1.Attribute_StringValues{StringValues: &backendv1.Strings{Values: v}}}
	case []int64:
		return &sdk.Attribute{Value: &backendv1.Attribute_IntValues{IntValues: &backendv1.Ints{Values: v}}}
	case []bool:
		return &sdk.Attribute{Value: &backendv1.Attribute_BoolValues{BoolValues: &backendv1.Bools{Values: v}}}
	}
	text, _ := value.(string)
	return sdk.String(text)
}
