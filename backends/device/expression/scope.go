package expression

import (
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
}

// ResolveName implements [cel.Activation].
func (s *Scope) ResolveName(name string) (any, bool) {
	switch name {
	case "kind":
		return types.String(s.Kind), true
	case "name":
		return types.String(s.Object.Name), true
	case "node":
		return types.String(s.Object.Node), true
	case "self":
		return value{objectType, s.Object}, true
	case "sys":
		return value{objectType, s.Sys}, true
	case "pci":
		f, err := s.Object.Function()
		return valueOr(functionType, f, err), true
	case "usb":
		p, err := s.Object.Port()
		return valueOr(portType, p, err), true
	case "iommu":
		f, err := s.Object.Function()
		var g *match.IOMMUGroup
		if err == nil {
			g, err = f.IOMMUGroup()
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
