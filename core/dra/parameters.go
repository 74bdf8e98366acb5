package dra

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	kjson "sigs.k8s.io/json"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/lifecycle"
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

// DecodeParameters decodes opaque parameters. Unknown and duplicate fields, and names that the
// backend does not have, are errors; the values are not checked.
func DecodeParameters(raw []byte, known []inventory.Parameter) (map[string]json.RawMessage, error) {
	var p Parameters
	strict, err := kjson.UnmarshalStrict(raw, &p)
	if err := errors.Join(append(strict, err)...); err != nil {
		return nil, err
	}
	if p.APIVersion != ParametersVersion || p.Kind != ParametersKind {
		return nil, fmt.Errorf("apiVersion %q and kind %q: the driver accepts only %s and %s", p.APIVersion, p.Kind, ParametersVersion, ParametersKind)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Parameters)) {
		if !slices.ContainsFunc(known, func(k inventory.Parameter) bool { return k.Name == name }) {
			return nil, errors.New(lifecycle.UnknownParameter(name, known))
		}
	}
	return p.Parameters, nil
}

// parametersFor returns the parameters that class and claim give for the devices of a request: a
// JSON object that the backend's schema accepts, or nil. Of a parameter that is given several
// times the last value counts: the configuration of the class comes before that of the claim.
func parametersFor(ctx context.Context, driver, request string, all []resourceapi.DeviceAllocationConfiguration, d inventory.Description) (json.RawMessage, error) {
	merged := map[string]json.RawMessage{}
	for _, from := range []resourceapi.AllocationConfigSource{resourceapi.AllocationConfigSourceClass, resourceapi.AllocationConfigSourceClaim} {
		for _, c := range all {
			if c.Source != from || c.Opaque == nil || c.Opaque.Driver != driver || !concerns(c.Requests, request) {
				continue
			}
			parameters, err := DecodeParameters(c.Opaque.Parameters.Raw, d.Parameters)
			if err != nil {
				return nil, fmt.Errorf("the parameters of the %s for request %s: %w", where(from), request, err)
			}
			maps.Copy(merged, parameters)
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
