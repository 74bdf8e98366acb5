package webhook

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// versions are those of the API whose objects are read. What is read is the same in all.
var versions = []string{"v1", "v1beta1", "v1beta2"}

// claimSpec is the part of a claim's specification that is read.
type claimSpec struct {
	Devices struct {
		Config []resourceapi.DeviceConfiguration `json:"config"`
	} `json:"devices"`
}

// configurations returns the configurations of devices in an object, and their place in it.
func configurations(kind metav1.GroupVersionKind, raw []byte) ([]resourceapi.DeviceConfiguration, *field.Path, error) {
	if kind.Group != resourceapi.GroupName || !slices.Contains(versions, kind.Version) {
		return nil, nil, notReviewed(kind)
	}
	spec := field.NewPath("spec")
	switch kind.Kind {
	case "ResourceClaim":
		var claim struct {
			Spec claimSpec `json:"spec"`
		}
		err := decode(kind, raw, &claim)
		return claim.Spec.Devices.Config, spec.Child("devices", "config"), err
	case "ResourceClaimTemplate":
		var template struct {
			Spec struct {
				Spec claimSpec `json:"spec"`
			} `json:"spec"`
		}
		err := decode(kind, raw, &template)
		return template.Spec.Spec.Devices.Config, spec.Child("spec", "devices", "config"), err
	case "DeviceClass":
		var class struct {
			Spec struct {
				Config []resourceapi.DeviceConfiguration `json:"config"`
			} `json:"spec"`
		}
		err := decode(kind, raw, &class)
		return class.Spec.Config, spec.Child("config"), err
	}
	return nil, nil, notReviewed(kind)
}

// decode decodes the fields that the value has. Others are the API server's to check.
func decode(kind metav1.GroupVersionKind, raw []byte, value any) error {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, value); err != nil {
		return fmt.Errorf("decode the %s: %w", kind.Kind, err)
	}
	return nil
}

func notReviewed(kind metav1.GroupVersionKind) error {
	return fmt.Errorf("the webhook reviews ResourceClaim, ResourceClaimTemplate and DeviceClass of %s (%s), not %s of %s/%s: correct the rules of the ValidatingWebhookConfiguration",
		resourceapi.GroupName, strings.Join(versions, ", "), kind.Kind, kind.Group, kind.Version)
}
