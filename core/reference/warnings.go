package reference

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/schema"
	"github.com/accelmux/accelmux/core/suggestion"
)

// limits are those of a backend; none if they are not known.
func limits(b *inventory.Backend) inventory.Limits {
	if b.Description.Limits == nil {
		return inventory.Limits{}
	}
	return *b.Description.Limits
}

// kinds checks that the settings of a backend for described devices describe some.
func kinds(of []*inventory.Backend) string {
	presets := limits(of[0]).Presets
	if len(presets) == 0 {
		return ""
	}
	return fmt.Sprintf("backend %s has no devices: name presets in its settings, or describe kinds; the presets are %s", of[0].Name, strings.Join(presets, ", "))
}

// labels checks the prefix of a vendor's labels.
func labels(prefix string) func([]*inventory.Backend) string {
	return func(of []*inventory.Backend) string {
		known := limits(of[0]).Labels
		if known == nil || slices.Contains(known, prefix) {
			return ""
		}
		hint := suggestion.OrAll(prefix, "there are those of", known)
		if len(known) == 0 {
			hint = "; it has none"
		}
		return fmt.Sprintf("backend %s has no labels of %s%s", of[0].Name, prefix, hint)
	}
}

// absent checks that a class has devices with the settings of one of its backends, and that a resource of the device plugin API
// does not wait for those that are made for claims.
func absent(class string, api config.API) func([]*inventory.Backend) string {
	return func(of []*inventory.Backend) string {
		var missing, made []string
		for _, b := range of {
			l := limits(b)
			if takes, is := l.Absent[class]; is {
				missing = append(missing, fmt.Sprintf("backend %s has no devices of the class %s with these settings, which takes %s", b.Name, class, takes))
			} else if slices.Contains(l.Potential, class) {
				made = append(made, b.Name)
			}
		}
		switch {
		case len(missing) == len(of):
			return "the resource is empty: " + strings.Join(missing, ", and ")
		case len(missing)+len(made) == len(of) && api != config.APIDRA:
			return fmt.Sprintf("with these settings backend %s makes devices of the class %s for claims: write api: %s; without that the resource has only those that exist already",
				strings.Join(made, ", "), class, config.APIDRA)
		}
		return ""
	}
}

// preparedFor checks the replicas of a resource without a selector: a backend may set devices up for a number of containers.
// Another resource of the profile with that number may be for them.
func preparedFor(r *config.Resource, all []config.Resource) func([]*inventory.Backend) string {
	return func(of []*inventory.Backend) string {
		for _, b := range of {
			for class, number := range limits(b).PreparedFor {
				isFor := func(r config.Resource) bool { return r.API == config.APIDevicePlugin && r.Replicas == number }
				if (r.Class == "" || r.Class == class) && !slices.ContainsFunc(all, isFor) {
					return fmt.Sprintf("replicas is %d, but backend %s sets up its devices of class %s for %d containers each: make replicas of the resource and the backend's settings say the same",
						r.Replicas, b.Name, class, number)
				}
			}
		}
		return ""
	}
}

// unresettable checks that a backend of a resource with resets after use can reset devices.
func unresettable(of []*inventory.Backend) string {
	var names []string
	for _, b := range of {
		if b.Description.Reset {
			return ""
		}
		names = append(names, b.Name)
	}
	return fmt.Sprintf("all devices of the resource are unhealthy, as backend %s cannot reset devices: leave out reset", strings.Join(names, ", "))
}

// parameterValue checks the value of a parameter that the configuration has.
func parameterValue(name string, p config.Parameter) func([]*inventory.Backend) string {
	return func(of []*inventory.Backend) string {
		for _, b := range of {
			d := &b.Description
			i := slices.IndexFunc(d.Parameters, func(p inventory.Parameter) bool { return p.Name == name })
			if i < 0 || p.Value == "" {
				continue
			}
			if wrong := refused(d.ParametersSchema, d.Parameters[i], p.Value); wrong != "" && p.FromPod() {
				return "containers that give no other value do not start: " + wrong
			} else if wrong != "" {
				return "containers do not start: " + wrong
			}
		}
		return ""
	}
}

// refused returns why the schema of parameters refuses a value; "" if it does not, or cannot be used.
func refused(of string, p inventory.Parameter, value string) string {
	encoded, wrong := p.JSON(value)
	if wrong != nil {
		encoded, _ = json.Marshal(value) // a text always can be; the schema knows best what is right
	}
	err := schema.CheckProperty(context.Background(), of, p.Name, encoded) // which is bounded
	if refused := new(schema.RefusedError); errors.As(err, &refused) {
		return refused.Error()
	}
	if wrong != nil {
		return wrong.Error()
	}
	return ""
}

// value checks what an attribute is compared with.
func (a attribute) value(of []*inventory.Backend) string {
	var values []string
	for _, b := range of {
		if !inventory.Declares(b.Description.Attributes, a.name, inventory.AnyKind) {
			continue
		}
		own := limits(b).Values[a.name]
		if len(own) == 0 {
			return "" // any text
		}
		values = append(values, own...)
	}
	return a.never(values)
}

// fact checks what a fact of the backends is compared with.
func (a attribute) fact(of []*inventory.Backend) string {
	var values []string
	for _, b := range of {
		switch a.name {
		case config.FactClass:
			values = append(values, b.Description.Classes...)
		case config.FactVendor:
			values = append(values, b.Description.Vendor)
		}
	}
	return a.never(values)
}

// never returns the message about a comparison with what is none of these values; "" if there is none.
func (a attribute) never(values []string) string {
	for _, c := range a.compared {
		if wrong := c.Never(values); len(values) > 0 && wrong != "" {
			return wrong
		}
	}
	return ""
}

// owned checks that devices of a class, "" for all, have the attribute.
func (a attribute) owned(class string) func([]*inventory.Backend) string {
	return func(of []*inventory.Backend) (message string) {
		for _, b := range of {
			l := limits(b)
			owners, isLimited := l.Owners[a.name]
			_, isAbsent := l.Absent[class] // which another warning is about
			switch {
			case !inventory.Declares(b.Description.Attributes, a.name, inventory.AnyKind):
				continue
			case !isLimited, isAbsent, slices.Contains(owners.Classes, class), class == "" && len(owners.Classes) > 0:
				return ""
			case message != "":
			case len(owners.Classes) > 0:
				message = fmt.Sprintf("devices of the class %s do not have the attribute %s, which those of the class %s have", class, a.name, strings.Join(owners.Classes, " or "))
			default:
				message = fmt.Sprintf("no device of backend %s has the attribute %s with these settings, which takes %s", b.Name, a.name, owners.Takes)
			}
		}
		return message
	}
}
