package deviceplugin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
)

// annotationPlugin is the first part of our annotation keys; the key's name part
// is at most 63 characters.
const (
	annotationPlugin  = "accelmux"
	maxAnnotationSlug = 63 - len(annotationPlugin) - 1
)

// inject returns the answer to Allocate for one container: what it gets by these units, which
// are sorted by ID, and by the CDI name own, unless that is "". own comes last, so that its
// edits override those of the devices. Each conflict is a message about a value that two
// devices set differently.
//
// Variables whose values are joined are part of the answer with every injection: CDI applies
// the edits of each device on its own, and the last value would win. The CDI definitions
// therefore leave them out.
func inject(v *view, units []*unit, own string, onHost inventory.OnHost) (response *pluginapi.ContainerAllocateResponse, conflicts []string, err error) {
	response = &pluginapi.ContainerAllocateResponse{}
	if len(units) == 0 {
		return response, nil, nil
	}
	devices := devicesOf(units)
	if response.Envs, err = inventory.JoinEnv(devices); err != nil {
		return nil, nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	if v.injection == config.InjectPlain {
		conflicts, err = injectPlain(response, devices, onHost)
		return response, conflicts, err
	}
	names := cdiNames(units, own)
	if v.injection != config.InjectCDIAnnotations {
		response.CdiDevices = cdiDevices(names)
	}
	if v.injection != config.InjectCDI {
		response.Annotations, err = annotations(v, names)
	}
	return response, nil, err
}

// annotations returns the CDI names in annotations with the resource's domain.
func annotations(v *view, names []string) (map[string]string, error) {
	standard, err := cdi.UpdateAnnotations(nil, annotationPlugin, slug(v.name, maxAnnotationSlug), names)
	domain := cmp.Or(v.annotations, config.DefaultAnnotationPrefix)
	if err != nil || domain == config.DefaultAnnotationPrefix {
		return standard, err
	}
	out := map[string]string{}
	for key, value := range standard {
		out[domain+"/"+strings.TrimPrefix(key, cdi.AnnotationPrefix)] = value
	}
	return out, nil
}

func cdiDevices(names []string) []*pluginapi.CDIDevice {
	named := make([]pluginapi.CDIDevice, len(names)) // one allocation for all
	devices := make([]*pluginapi.CDIDevice, len(names))
	for i, name := range names {
		named[i].Name = name
		devices[i] = &named[i]
	}
	return devices
}

// devicesOf returns the units' devices, each once, in the units' order. Units are sorted by ID,
// so those of one device are neighbors.
func devicesOf(units []*unit) []*inventory.Device {
	devices := make([]*inventory.Device, 0, len(units))
	for i, u := range units {
		if i == 0 || units[i-1].Device.Key != u.Device.Key {
			devices = append(devices, u.Device)
		}
	}
	return devices
}

// cdiNames returns the CDI names of the units' devices, in their order, and then own.
func cdiNames(units []*unit, own string) []string {
	names := make([]string, 0, len(units)+1)
	for i, u := range units {
		if i == 0 || units[i-1].cdi != u.cdi {
			names = append(names, u.cdi)
		}
	}
	if own != "" {
		names = append(names, own)
	}
	return names
}

// injectPlain adds the edits of the devices, in the order of unit IDs, to the
// variables that are joined. Where two devices disagree the later one wins, as it
// does when a runtime applies CDI edits in that order:
//
//   - a variable that both set has the later value;
//   - a container path of both has the later host path; with the same host path it has
//     the permissions of both, and is writable if one of the two mounts is.
//
// The host paths are resolved, so that they have no links. A path that a container may not have
// is an error: a runtime without CDI accepts any kind of node. A path that the agent cannot see
// stays as it is: a driver container has nodes outside /dev, which the chart does not mount.
func injectPlain(response *pluginapi.ContainerAllocateResponse, devices []*inventory.Device, onHost inventory.OnHost) (conflicts []string, err error) {
	envs := map[string]string{}
	nodes := map[string]*pluginapi.DeviceSpec{}
	mounts := map[string]*pluginapi.Mount{}
	disagree := func(what, name, before, after string, device inventory.Key) {
		conflicts = append(conflicts, fmt.Sprintf("%s %s was %q, device %s makes it %q", what, name, before, device, after))
	}
	for _, d := range devices {
		if len(d.Edits.NetDevices) > 0 {
			return nil, fmt.Errorf("device %s has network interfaces, which only CDI carries: set injection: cdi for its resource", d.Key)
		}
		edits := d.Edits
		edits.Hooks = nil // only CDI has them
		edits, err := onHost(d.Backend, edits)
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", d.Key, err)
		}
		for name, value := range edits.Env.All() {
			if joined, ok := response.GetEnvs()[name]; ok {
				value = joined
			}
			if before, ok := envs[name]; ok && before != value {
				disagree("env", name, before, value, d.Key)
			}
			envs[name] = value
		}
		for _, n := range edits.DeviceNodes {
			spec := &pluginapi.DeviceSpec{ContainerPath: n.Path, HostPath: n.HostPath, Permissions: n.Permissions}
			if before, ok := nodes[n.Path]; ok {
				if before.GetHostPath() == spec.HostPath {
					spec.Permissions = unite(before.GetPermissions(), n.Permissions)
				} else {
					disagree("device node", n.Path, before.GetHostPath(), spec.HostPath, d.Key)
				}
			}
			nodes[n.Path] = spec
		}
		for _, m := range edits.Mounts {
			mount := &pluginapi.Mount{ContainerPath: m.ContainerPath, HostPath: m.HostPath, ReadOnly: !m.Writable}
			if before, ok := mounts[m.ContainerPath]; ok {
				if before.GetHostPath() == m.HostPath {
					mount.ReadOnly = mount.GetReadOnly() && before.GetReadOnly()
				} else {
					disagree("mount", m.ContainerPath, before.GetHostPath(), m.HostPath, d.Key)
				}
			}
			mounts[m.ContainerPath] = mount
		}
	}
	if len(envs) > 0 {
		response.Envs = envs
	}
	for _, path := range slices.Sorted(maps.Keys(nodes)) {
		response.Devices = append(response.Devices, nodes[path])
	}
	for _, path := range slices.Sorted(maps.Keys(mounts)) {
		response.Mounts = append(response.Mounts, mounts[path])
	}
	return conflicts, nil
}

// unite returns the permissions of both, in the order that runtimes write them.
func unite(a, b string) string {
	var out strings.Builder
	for _, c := range "rwm" {
		if strings.ContainsRune(a, c) || strings.ContainsRune(b, c) {
			out.WriteRune(c)
		}
	}
	return out.String()
}
