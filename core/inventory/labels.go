package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

const (
	// maxNodeLabels bounds the node labels of a backend.
	maxNodeLabels = 256
	// maxLabelPrefix bounds the prefix of a label's name.
	maxLabelPrefix = 100
	replicas       = "{replicas}"
	// maxReplicas has the most digits that replicas of a resource can have.
	maxReplicas = 1000
)

// NodeLabel is a label of the node as a vendor's own tools name it.
type NodeLabel struct {
	// Name is a prefix, a slash, and a name.
	Name string
	// Value is a valid value of a label.
	Value string
	// Device is the ID of the device that decides between the values; "" means always Value.
	// The device need not be in the inventory.
	Device string
	// SharedValue is the value if containers may share the device, with replicas as a
	// placeholder; "" is a value, too.
	SharedValue string
}

// ValueFor returns the value if n containers may share the device.
func (l NodeLabel) ValueFor(n int) string {
	if l.Device == "" || n <= 1 {
		return l.Value
	}
	return strings.ReplaceAll(l.SharedValue, replicas, fmt.Sprint(n))
}

// nodeLabels returns the valid labels of a report, sorted by name.
func nodeLabels(wire []*backendv1.NodeLabel, remarks *problems) []NodeLabel {
	var out []NodeLabel
	seen := map[string]bool{}
	for _, w := range wire {
		l := NodeLabel{Name: w.GetName(), Value: w.GetValue(), Device: w.GetDeviceId(), SharedValue: w.GetSharedValue()}
		err := checkNodeLabel(l)
		switch {
		case err != nil:
		case seen[l.Name]:
			err = errors.New("the inventory has two labels of that name")
		case len(out) == maxNodeLabels:
			err = fmt.Errorf("an inventory has at most %d", maxNodeLabels)
		}
		if err != nil {
			remarks.add("", "label %s of the node is left out: %s", quote(w.GetName()), err)
			continue
		}
		seen[l.Name] = true
		out = append(out, l)
	}
	sortLabels(out)
	return out
}

func sortLabels(labels []NodeLabel) {
	slices.SortFunc(labels, func(a, b NodeLabel) int { return cmp.Compare(a.Name, b.Name) })
}

func checkNodeLabel(l NodeLabel) error {
	prefix, _, ok := strings.Cut(l.Name, "/")
	if wrong := validation.IsQualifiedName(l.Name); len(wrong) > 0 || !ok || len(prefix) > maxLabelPrefix {
		return fmt.Errorf("its name must be a DNS name of at most %d characters, a slash, and a name of letters, digits and -_., such as example.com/model", maxLabelPrefix)
	}
	values := []string{l.Value}
	if l.Device != "" {
		if err := checkID("device_id", l.Device); err != nil {
			return err
		}
		values = append(values, l.ValueFor(maxReplicas))
	}
	for _, value := range values {
		if len(validation.IsValidLabelValue(value)) > 0 {
			return fmt.Errorf("its value %s must be at most %d letters, digits, and -_. in between", quote(value), validation.LabelValueMaxLength)
		}
	}
	return nil
}
