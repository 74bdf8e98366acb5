package dra

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	kjson "sigs.k8s.io/json"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/schema"
)

// The opaque parameters of claims and device classes for our drivers.
const (
	ParametersVersion = "accelmux.io/v1alpha1"
	ParametersKind    = "DeviceParameters"
)

// Parameters are the opaque parameters of a claim or a device class:
//
//	apiVersion: accelmux.io/v1alpha1
//	kind: DeviceParameters
//	parameters: {bitstream: kernels/fft.xclbin}
type Parameters struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Parameters are those of the backend's Prepare, by the names and types of its schema.
	Parameters map[string]json.RawMessage `json:"parameters"`
}

// Parameter is a parameter of the backend's Prepare, as opaque parameters have it.
type Parameter struct {
	// Field is the path of the field in the object.
	Field string
	Value json.RawMessage
}

// DecodeParameters decodes opaque parameters of our kind, or of one of kinds, which the configuration
// maps. Other kinds, unknown and duplicate fields, and names that the backend does not have, are
// errors; the values are not checked.
func DecodeParameters(raw []byte, kinds []config.OpaqueKind, known []inventory.Parameter) (map[string]Parameter, error) {
	var header struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &header); err != nil {
		return nil, err
	}
	if header.APIVersion == ParametersVersion && header.Kind == ParametersKind {
		return decodeOwn(raw, known)
	}
	accepted := []string{ParametersKind + " of " + ParametersVersion}
	for _, k := range kinds {
		if header.APIVersion == k.APIVersion && header.Kind == k.Kind {
			return decodeMapped(raw, k, known)
		}
		accepted = append(accepted, k.Kind+" of "+k.APIVersion)
	}
	return nil, fmt.Errorf("apiVersion %q and kind %q: the driver accepts only %s; dra.kinds of the backend, in the node configuration, adds kinds",
		header.APIVersion, header.Kind, strings.Join(accepted, ", "))
}

// decodeOwn decodes our kind.
func decodeOwn(raw []byte, known []inventory.Parameter) (map[string]Parameter, error) {
	var p Parameters
	if err := unmarshal(raw, &p); err != nil {
		return nil, err
	}
	all := make(map[string]Parameter, len(p.Parameters))
	for _, name := range slices.Sorted(maps.Keys(p.Parameters)) {
		if !isKnown(name, known) {
			return nil, errors.New(inventory.UnknownParameter(name, known))
		}
		all[name] = Parameter{Field: "parameters." + name, Value: p.Parameters[name]}
	}
	return all, nil
}

// decodeMapped decodes a kind of another driver.
func decodeMapped(raw []byte, k config.OpaqueKind, known []inventory.Parameter) (map[string]Parameter, error) {
	var object map[string]any
	if err := unmarshal(raw, &object); err != nil {
		return nil, err
	}
	delete(object, "apiVersion")
	delete(object, "kind")
	fields, all := map[string]any{}, map[string]Parameter{}
	leaves(object, "", fields)
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		name, ok := k.Fields[field]
		if !ok {
			return nil, fmt.Errorf("the driver cannot apply the field %s of %s: it accepts %s; dra.kinds of the backend, in the node configuration, adds fields",
				field, k.Kind, cmp.Or(strings.Join(slices.Sorted(maps.Keys(k.Fields)), ", "), "none"))
		}
		if !isKnown(name, known) {
			return nil, fmt.Errorf("the field %s of %s: %s: correct dra.kinds of the backend in the node configuration", field, k.Kind, inventory.UnknownParameter(name, known))
		}
		value, err := json.Marshal(fields[field])
		if err != nil {
			return nil, fmt.Errorf("the field %s of %s: %w", field, k.Kind, err)
		}
		all[name] = Parameter{Field: field, Value: value}
	}
	return all, nil
}

// leaves adds the fields of an object that have no fields of their own to all, by their paths. A name
// with a dot is not in the syntax of config.OpaqueKind, and must not look like two names.
func leaves(object map[string]any, path string, all map[string]any) {
	for name, value := range object {
		if strings.Contains(name, ".") {
			name = strconv.Quote(name)
		}
		if inner, ok := value.(map[string]any); ok {
			leaves(inner, path+name+".", all)
			continue
		}
		all[path+name] = value
	}
}

// unmarshal decodes JSON; unknown and duplicate fields are errors.
func unmarshal(raw []byte, into any) error {
	strict, err := kjson.UnmarshalStrict(raw, into)
	return errors.Join(append(strict, err)...)
}

func isKnown(name string, known []inventory.Parameter) bool {
	return slices.ContainsFunc(known, func(k inventory.Parameter) bool { return k.Name == name })
}

// parametersFor returns the parameters that class and claim give for the devices of a request: a
// JSON object that the backend's schema accepts, or nil. Of a parameter that is given several
// times the last value counts: the configuration of the class comes before that of the claim.
func parametersFor(ctx context.Context, driver, request string, all []resourceapi.DeviceAllocationConfiguration,
	kinds []config.OpaqueKind, d inventory.Description,
) (json.RawMessage, error) {
	merged := map[string]json.RawMessage{}
	for _, from := range []resourceapi.AllocationConfigSource{resourceapi.AllocationConfigSourceClass, resourceapi.AllocationConfigSourceClaim} {
		for _, c := range all {
			if c.Source != from || c.Opaque == nil || c.Opaque.Driver != driver || !concerns(c.Requests, request) {
				continue
			}
			parameters, err := DecodeParameters(c.Opaque.Parameters.Raw, kinds, d.Parameters)
			if err != nil {
				return nil, fmt.Errorf("the parameters of the %s for request %s: %w", where(from), request, err)
			}
			for name, p := range parameters {
				merged[name] = p.Value
			}
		}
	}
	if len(merged) == 0 {
		return nil, nil
	}
	object, err := json.Marshal(merged)
	if err == nil {
		err = schema.Check(ctx, d.ParametersSchema, object)
	}
	if err != nil {
		return nil, fmt.Errorf("the parameters for request %s: %w", request, err)
	}
	return object, nil
}

func where(from resourceapi.AllocationConfigSource) string {
	if from == resourceapi.AllocationConfigSourceClass {
		return "device class"
	}
	return "claim"
}

// concerns reports whether a configuration for these requests applies to a request, which may have
// the name of an alternative after a slash. Without requests it applies to all.
func concerns(requests []string, request string) bool {
	return len(requests) == 0 || slices.ContainsFunc(requests, func(r string) bool {
		return r == request || r == resourceclaim.BaseRequestRef(request) && !strings.Contains(r, "/")
	})
}
