package expression

import (
	"path"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/accelmux/accelmux/backends/device/match"
)

// Scope has the variables of an expression about an object.
type Scope struct {
	Kind   string
	Object *match.Object
	// Sys is all of sysfs.
	Sys *match.Object

	// renumbered is set by [Scope.Renumbered].
	renumbered bool
}

// Renumbered returns the scope with other numbers where the kernel counts them in the order in which it finds
// devices: in name and node, and those of the USB bus, of the device on it and of the IOMMU group. What an
// expression reads from files stays.
func (s *Scope) Renumbered() *Scope {
	also := *s
	also.renumbered = true
	return &also
}

// node returns the path of the device node.
func (s *Scope) node() string {
	if !s.renumbered || s.Object.Node == "" {
		return s.Object.Node
	}
	dir, name := path.Split(s.Object.Node)
	return dir + match.Renumbered(name)
}

// ResolveName implements [cel.Activation].
func (s *Scope) ResolveName(name string) (any, bool) {
	switch name {
	case "kind":
		return types.String(s.Kind), true
	case "name":
		if s.renumbered {
			return types.String(match.Renumbered(s.Object.Name)), true
		}
		return types.String(s.Object.Name), true
	case "node":
		return types.String(s.node()), true
	case "self":
		return value{objectType, s.Object}, true
	case "sys":
		return value{objectType, s.Sys}, true
	case "pci":
		f, err := s.Object.Function()
		return valueOr(functionType, f, err), true
	case "usb":
		p, err := s.Object.Port()
		if err == nil && s.renumbered {
			p.Shift = 1
		}
		return valueOr(portType, p, err), true
	case "iommu":
		f, err := s.Object.Function()
		var g *match.IOMMUGroup
		if err == nil {
			g, err = f.IOMMUGroup()
		}
		if err == nil && s.renumbered {
			g.Name += "1"
		}
		return valueOr(groupType, g, err), true
	}
	return nil, false
}

// Parent implements [cel.Activation].
func (s *Scope) Parent() cel.Activation { return nil }

func valueOr(is *types.Type, of any, err error) ref.Val {
	if err != nil {
		return types.WrapErr(err)
	}
	return value{is, of}
}
