package resource

import (
	"context"
	"maps"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	dracel "k8s.io/dynamic-resource-allocation/cel"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
)

// evaluate reports whether a selector selects the device. A missing attribute
// or capacity means no; any other failure is an error.
func evaluate(selector *dracel.CompilationResult, input dracel.Device) (bool, error) {
	// The cost limit bounds the time. A deadline could give a different table on a busy
	// machine.
	selected, _, err := selector.DeviceMatches(context.Background(), input)
	if err != nil && isMissing(err) {
		return false, nil
	}
	return selected, err
}

// isMissing reports whether err is that of a map that lacks a key. cel-go exports no type to
// compare with (interpreter.resolutionError is not exported, and its Is method compares texts
// as well). A test fails if the text changes.
func isMissing(err error) bool {
	return strings.HasPrefix(err.Error(), "no such key: ")
}

// celDevice returns the device as selectors see it; doc.go describes it.
func celDevice(backend *inventory.Backend, d *inventory.Device) dracel.Device {
	in := dracel.Device{
		Driver:     backend.Name,
		Attributes: make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute, len(d.Attributes)+len(config.Facts())+len(config.Standard())),
		Capacity:   make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity, len(d.Capacities)),
	}
	maps.Copy(in.Attributes, CoreAttributes(backend, d)) // but for a PCIe root that the backend reports
	// A name without a domain is in the domain of the driver.
	for name, a := range d.Attributes.All() {
		in.Attributes[resourceapi.QualifiedName(name)] = DeviceAttribute(a)
	}
	for name, amount := range d.Capacities.All() {
		in.Capacity[resourceapi.QualifiedName(name)] = resourceapi.DeviceCapacity{
			Value: *resource.NewQuantity(amount, resource.BinarySI),
		}
	}
	return in
}

// DeviceAttribute returns an attribute as resource.k8s.io has it.
func DeviceAttribute(a inventory.Attribute) (out resourceapi.DeviceAttribute) {
	switch v := a.Value.(type) {
	case string:
		out.StringValue = &v
	case int64:
		out.IntValue = &v
	case bool:
		out.BoolValue = &v
	case inventory.Version:
		out.VersionValue = new(string(v))
	case []string:
		out.StringValues = v
	case []int64:
		out.IntValues = v
	case []bool:
		out.BoolValues = v
	case []inventory.Version:
		for _, version := range v {
			out.VersionValues = append(out.VersionValues, string(version))
		}
	}
	return out
}

// placeholderValues returns the values of the placeholders of a name; ok is false if the
// device lacks one of the attributes, or has an empty string there.
func placeholderValues(placeholders []resourceapi.QualifiedName, input *dracel.Device) (values []string, ok bool) {
	values = make([]string, len(placeholders))
	for i, placeholder := range placeholders {
		switch a := input.Attributes[placeholder]; {
		case a.StringValue != nil:
			values[i] = *a.StringValue
		case a.IntValue != nil:
			values[i] = strconv.FormatInt(*a.IntValue, 10)
		case a.BoolValue != nil:
			values[i] = strconv.FormatBool(*a.BoolValue)
		case a.VersionValue != nil:
			values[i] = *a.VersionValue
		}
		if values[i] == "" {
			return nil, false
		}
	}
	return values, true
}
