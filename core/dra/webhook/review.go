package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/accelmux/accelmux/core/dra"
	"github.com/accelmux/accelmux/core/schema"
	"github.com/accelmux/accelmux/core/text"
)

const (
	// maxMessages bounds the mistakes that one answer lists, and maxMessage the text of each, in bytes.
	maxMessages = 16
	maxMessage  = 1 << 10
	// maxParameters bounds opaque parameters, in bytes: the API server's bound, each byte of which may be
	// an escape of six here.
	maxParameters = 6 * resourceapi.OpaqueParametersMaxLength
)

// review answers a request. The error is for a request that the webhook should not get.
func (r *Reviewer) review(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	answer := &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true}
	if request.Operation != admissionv1.Create && request.Operation != admissionv1.Update {
		return answer, nil
	}
	all, at, err := configurations(request.Kind, request.Object.Raw)
	if err != nil {
		return nil, err
	}
	if len(all) > resourceapi.DeviceConfigMaxSize {
		return nil, fmt.Errorf("%s has %d entries: the API server accepts %d", at, len(all), resourceapi.DeviceConfigMaxSize)
	}
	if request.Operation == admissionv1.Update {
		// What was stored before, by another schema or without the webhook, must not keep labels
		// and finalizers from being changed.
		if old, _, err := configurations(request.Kind, request.OldObject.Raw); err == nil && reflect.DeepEqual(old, all) {
			return answer, nil
		}
	}
	var mistakes []string
	for n, c := range all {
		if c.Opaque == nil {
			continue
		}
		at := at.Index(n).Child("opaque", "parameters")
		more, unchecked := check(ctx, at, c.Opaque, r.backends)
		mistakes = append(mistakes, more...)
		if unchecked != nil {
			answer.Warnings = append(answer.Warnings, fmt.Sprintf("accelmux did not check %s: %s", at, unchecked))
		}
	}
	if len(mistakes) == 0 {
		return answer, nil
	}
	if more := len(mistakes) - maxMessages; more > 0 {
		mistakes = append(mistakes[:maxMessages], fmt.Sprintf("and %d more", more))
	}
	for n, mistake := range mistakes {
		mistakes[n] = text.Shorten(mistake, maxMessage)
	}
	answer.Allowed = false
	answer.Result = &metav1.Status{
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity,
		Message: strings.Join(mistakes, "; "),
	}
	if r.logs.Allow() {
		r.log.Info("an object with wrong parameters is refused", "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name, "error", answer.Result.Message)
	}
	return answer, nil
}

// check returns the mistakes in opaque parameters, or why they could not be checked. If several
// backends have the driver's name, in several profiles, one that accepts them is enough: which node a
// claim is for is not known yet.
func check(ctx context.Context, at *field.Path, opaque *resourceapi.OpaqueDeviceConfiguration, backends []backend) (mistakes []string, unchecked error) {
	for _, b := range backends {
		if b.driver != opaque.Driver {
			continue
		}
		if b.description == nil {
			unchecked = errors.Join(unchecked, fmt.Errorf("the manifest of backend %s cannot be used (see the log of the webhook)", b.name))
			continue
		}
		found, err := checkParameters(ctx, at, opaque.Parameters.Raw, b)
		switch {
		case err != nil:
			unchecked = errors.Join(unchecked, fmt.Errorf("the schema of backend %s: %w", b.name, err))
		case len(found) == 0:
			return nil, nil
		case len(mistakes) == 0:
			mistakes = found
		}
	}
	if unchecked != nil {
		return nil, unchecked
	}
	return mistakes, nil
}

// checkParameters returns the mistakes in parameters by the description of the backend. The error is for
// a schema that cannot be used.
func checkParameters(ctx context.Context, at *field.Path, raw []byte, b backend) (mistakes []string, err error) {
	if len(raw) > maxParameters {
		return []string{fmt.Sprintf("%s: they have %d bytes: the API server accepts %d", at, len(raw), resourceapi.OpaqueParametersMaxLength)}, nil
	}
	parameters, err := dra.DecodeParameters(raw, b.kinds, b.description.Parameters)
	if err != nil {
		return []string{fmt.Sprintf("%s: %s", at, oneLine(err))}, nil
	}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		mistake, err := checkValue(ctx, b.description.ParametersSchema, name, parameters[name].Value)
		if err != nil {
			return nil, err
		}
		if mistake != "" {
			mistakes = append(mistakes, fmt.Sprintf("%s: %s", at.Child(parameters[name].Field), mistake))
		}
	}
	return mistakes, nil
}

// checkValue returns why the schema refuses the value of a parameter.
func checkValue(ctx context.Context, properties, name string, value json.RawMessage) (mistake string, err error) {
	err = schema.CheckProperty(ctx, properties, name, value)
	if refused := new(schema.RefusedError); errors.As(err, &refused) {
		return refused.Error(), nil
	}
	return "", err
}

// oneLine returns the message of joined errors.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
