package allocator

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Objects are the claims and classes of a manifest.
type Objects struct {
	Claims  []Claim
	Classes map[string]*resourceapi.DeviceClass
}

// Read returns the ResourceClaims, ResourceClaimTemplates and DeviceClasses of resource.k8s.io/v1 of a
// manifest, with the API server's defaults. Objects of other kinds are ignored.
func Read(manifest io.Reader) (o Objects, err error) {
	o.Classes = map[string]*resourceapi.DeviceClass{}
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(manifest)); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return o, err
		}
		if err := o.add(document); err != nil {
			return o, err
		}
	}
	for i := range o.Claims {
		setDefaults(&o.Claims[i].Spec)
	}
	if len(o.Claims) == 0 {
		return o, fmt.Errorf("the file has no ResourceClaim and no ResourceClaimTemplate of %s", resourceapi.SchemeGroupVersion)
	}
	return o, nil
}

// add adds the object of a document.
func (o *Objects) add(document []byte) error {
	var object metav1.PartialObjectMetadata
	if err := yaml.Unmarshal(document, &object); err != nil {
		return err
	}
	if object.APIVersion != resourceapi.SchemeGroupVersion.String() {
		if strings.HasPrefix(object.APIVersion, resourceapi.GroupName+"/") {
			return fmt.Errorf("%s %s is of %s: only %s is read", object.Kind, object.Name, object.APIVersion, resourceapi.SchemeGroupVersion)
		}
		return nil
	}
	var claim resourceapi.ResourceClaim
	var template resourceapi.ResourceClaimTemplate
	var class resourceapi.DeviceClass
	var err error
	switch object.Kind {
	case "ResourceClaim":
		err = yaml.UnmarshalStrict(document, &claim)
		o.Claims = append(o.Claims, Claim{object.Name, claim.Spec})
	case "ResourceClaimTemplate":
		err = yaml.UnmarshalStrict(document, &template)
		o.Claims = append(o.Claims, Claim{cmp.Or(object.Name, object.GenerateName), template.Spec.Spec})
	case "DeviceClass":
		err = yaml.UnmarshalStrict(document, &class)
		o.Classes[object.Name] = &class
	default:
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", object.Kind, object.Name, err)
	}
	return nil
}

// setDefaults sets what the API server sets.
func setDefaults(spec *resourceapi.ResourceClaimSpec) {
	set := func(mode *resourceapi.DeviceAllocationMode, count *int64) {
		if *mode = cmp.Or(*mode, resourceapi.DeviceAllocationModeExactCount); *mode == resourceapi.DeviceAllocationModeExactCount {
			*count = cmp.Or(*count, 1)
		}
	}
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if r.Exactly != nil {
			set(&r.Exactly.AllocationMode, &r.Exactly.Count)
		}
		for j := range r.FirstAvailable {
			set(&r.FirstAvailable[j].AllocationMode, &r.FirstAvailable[j].Count)
		}
	}
}

// addClasses adds the classes that the chart makes of resources, unless there are such already.
func (o *Objects) addClasses(resources []string) {
	for _, name := range resources {
		class := ClassName(name)
		if class == "" || o.Classes[class] != nil {
			continue
		}
		o.Classes[class] = &resourceapi.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: class},
			Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
				Expression: fmt.Sprintf(`device.attributes["accelmux.io"].?resource.orValue("") == %q`, name),
			}}}},
		}
	}
}

// ClassName returns the name of the chart's class of a resource: gpu.example.com for example.com/gpu.
func ClassName(resource string) string {
	domain, name, ok := strings.Cut(resource, "/")
	if !ok {
		return ""
	}
	return strings.ReplaceAll(strings.ToLower(name+"."+domain), "_", "-")
}

// check returns an error for a class that is not known, which the scheduler would wait for.
func (o *Objects) check() error {
	for _, c := range o.Claims {
		for _, r := range c.Spec.Devices.Requests {
			names := make([]string, 0, 1+len(r.FirstAvailable))
			if r.Exactly != nil {
				names = append(names, r.Exactly.DeviceClassName)
			}
			for _, sub := range r.FirstAvailable {
				names = append(names, sub.DeviceClassName)
			}
			for _, name := range names {
				if o.Classes[name] == nil {
					return fmt.Errorf("claim %s, request %s: there is no DeviceClass %q: add it to the file; known are %s",
						c.Name, r.Name, name, strings.Join(slices.Sorted(maps.Keys(o.Classes)), ", "))
				}
			}
		}
	}
	return nil
}
