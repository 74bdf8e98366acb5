package expression

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"

	"github.com/accelmux/accelmux/backends/device/match"
)

// The types of variables, beside CEL's own.
var (
	objectType   = types.NewObjectType("object")
	functionType = types.NewObjectType("pci")
	portType     = types.NewObjectType("usb")
	groupType    = types.NewObjectType("iommu")
	versionType  = types.NewOpaqueType("version")
)

// environment returns the variables, types and functions; it is made once, at the first use.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	options := []cel.EnvOption{
		ext.Strings(ext.StringsVersion(2)), cel.CustomTypeProvider(provider{registry}), cel.CustomTypeAdapter(registry),
		cel.Variable("name", cel.StringType), cel.Variable("node", cel.StringType), cel.Variable("kind", cel.StringType),
		cel.Variable("self", objectType), cel.Variable("sys", objectType),
		cel.Variable("pci", functionType), cel.Variable("usb", portType), cel.Variable("iommu", groupType),
		cel.Function("version", cel.Overload("version_string", []*cel.Type{cel.StringType}, versionType,
			cel.UnaryBinding(func(text ref.Val) ref.Val {
				s, _ := text.Value().(string)
				return version(s)
			}))),
	}
	for _, m := range methods {
		var overloads []cel.FunctionOpt
		for _, receiver := range []*types.Type{objectType, functionType, portType} {
			overloads = append(overloads, cel.MemberOverload(receiver.TypeName()+"_"+m.name,
				[]*cel.Type{receiver, cel.StringType}, m.result, cel.BinaryBinding(m.call)))
		}
		options = append(options, cel.Function(m.name, overloads...))
	}
	return cel.NewEnv(options...)
})

// method is a function of objects, with the path of a file.
type method struct {
	name   string
	result *types.Type
	call   func(object, file ref.Val) ref.Val
}

// methods are all methods.
var methods = []method{
	{"text", types.StringType, reading((*match.Object).Text, func(s string) ref.Val { return types.String(s) })},
	{"number", types.IntType, reading((*match.Object).Uint, func(n uint64) ref.Val { return types.Int(n) })}, //nolint:gosec // of 63 bits
	{"has", types.BoolType, reading((*match.Object).Has, func(is bool) ref.Val { return types.Bool(is) })},
	{"link", types.StringType, reading((*match.Object).Link, func(s string) ref.Val { return types.String(s) })},
	{"names", types.NewListType(types.StringType), reading((*match.Object).Names, func(names []string) ref.Val {
		return types.NewStringList(types.DefaultTypeAdapter, names)
	})},
}

func reading[T any](read func(*match.Object, string) (T, error), result func(T) ref.Val) func(object, file ref.Val) ref.Val {
	return func(object, file ref.Val) ref.Val {
		path, _ := file.Value().(string)
		var o *match.Object
		switch v := object.Value().(type) {
		case *match.Object:
			o = v
		case *match.Function:
			o = &v.Object
		case *match.Port:
			o = &v.Object
		default:
			return types.WrapErr(fmt.Errorf("%s has no files", object.Type().TypeName()))
		}
		got, err := read(o, path)
		if err != nil {
			return types.WrapErr(err)
		}
		return result(got)
	}
}

// fields are those of types, by name.
var fields = map[string]map[string]*types.FieldType{
	"pci": {
		"address":         text(func(f *match.Function) (string, error) { return f.Address.String(), nil }),
		"driver":          text((*match.Function).Driver),
		"virtualIndex":    field(types.IntType, func(f *match.Function) (any, error) { return f.VirtualIndex() }),
		"vendor":          number("vendor"),
		"device":          number("device"),
		"class":           number("class"),
		"revision":        number("revision"),
		"subsystemVendor": number("subsystem_vendor"),
		"subsystemDevice": number("subsystem_device"),
	},
	"usb": {
		"vendor":       file("idVendor"),
		"product":      file("idProduct"),
		"class":        file("bDeviceClass"),
		"serial":       file("serial"),
		"manufacturer": file("manufacturer"),
		"model":        file("product"),
		"port":         text(func(p *match.Port) (string, error) { at, _, err := p.Location(); return at, err }),
		"interface":    text(func(p *match.Port) (string, error) { return p.Interface, nil }),
		"busNumber":    field(types.IntType, func(p *match.Port) (any, error) { return p.Number("busnum") }),
		"deviceNumber": field(types.IntType, func(p *match.Port) (any, error) { return p.Number("devnum") }),
	},
	"iommu": {
		"group": text(func(g *match.IOMMUGroup) (string, error) { return g.Name, nil }),
	},
}

func field[T any](is *types.Type, get func(T) (any, error)) *types.FieldType {
	return &types.FieldType{
		Type: is, IsSet: func(any) bool { return true },
		GetFrom: func(target any) (any, error) {
			of, ok := target.(T)
			if !ok {
				return nil, errors.New("not of this type")
			}
			got, err := get(of)
			if n, ok := got.(uint64); ok {
				return int64(n), err //nolint:gosec // of 63 bits
			}
			return got, err
		},
	}
}

func text[T any](get func(T) (string, error)) *types.FieldType {
	return field(types.StringType, func(of T) (any, error) { return get(of) })
}

func number(name string) *types.FieldType {
	return text(func(f *match.Function) (string, error) { return f.ID(name) })
}

func file(name string) *types.FieldType {
	return text(func(p *match.Port) (string, error) { return p.Text(name) })
}

// provider has the types.
type provider struct{ *types.Registry }

// FindStructType implements [types.Provider].
func (p provider) FindStructType(name string) (*types.Type, bool) {
	for _, t := range []*types.Type{objectType, functionType, portType, groupType} {
		if t.TypeName() == name {
			return types.NewTypeTypeWithParam(t), true
		}
	}
	return p.Registry.FindStructType(name)
}

// FindStructFieldType implements [types.Provider].
func (p provider) FindStructFieldType(name, of string) (*types.FieldType, bool) {
	if known, ok := fields[name]; ok {
		f, ok := known[of]
		return f, ok
	}
	return p.Registry.FindStructFieldType(name, of)
}

// value is an object, a function, a port or a group.
type value struct {
	is *types.Type
	of any
}

// ConvertToNative implements [ref.Val].
func (v value) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("%s cannot be %s", v.is.TypeName(), t)
}

// ConvertToType implements [ref.Val].
func (v value) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return v.is
	}
	return types.NewErr("%s cannot be %s", v.is.TypeName(), t.TypeName())
}

// Equal implements [ref.Val].
func (v value) Equal(other ref.Val) ref.Val { return types.Bool(v.of == other.Value()) }

// Type implements [ref.Val].
func (v value) Type() ref.Type { return v.is }

// Value implements [ref.Val].
func (v value) Value() any { return v.of }

// version is a semantic version.
type version string

// ConvertToNative implements [ref.Val].
func (v version) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("a version cannot be %s", t)
}

// ConvertToType implements [ref.Val].
func (v version) ConvertToType(t ref.Type) ref.Val {
	return types.NewErr("a version cannot be %s", t.TypeName())
}

// Equal implements [ref.Val].
func (v version) Equal(other ref.Val) ref.Val { return types.Bool(other.Value() == any(string(v))) }

// Type implements [ref.Val].
func (v version) Type() ref.Type { return versionType }

// Value implements [ref.Val].
func (v version) Value() any { return string(v) }
