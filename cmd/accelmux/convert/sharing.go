package convert

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// replicated is how the file shares resources in one way.
type replicated struct {
	Strategy                   string
	RenameByDefault            bool
	FailRequestsGreaterThanOne bool
	Resources                  []struct {
		Name, Rename string
		Devices      any
		Replicas     int
	}
}

func (c *conversion) sharing() error {
	var section struct{ TimeSlicing, MPS *replicated }
	if err := c.section("sharing", &section); err != nil {
		return err
	}
	switch {
	case section.TimeSlicing != nil && section.MPS != nil:
		return errors.New("sharing: timeSlicing and mps exclude each other")
	case section.TimeSlicing != nil:
		return c.share(section.TimeSlicing, false)
	case section.MPS != nil:
		return c.share(section.MPS, true)
	}
	return nil
}

// share translates shared resources.
func (c *conversion) share(shared *replicated, mps bool) error {
	for _, r := range shared.Resources {
		name := r.Name
		if !strings.Contains(name, "/") {
			name = "nvidia.com/" + name
		}
		if r.Replicas < 1 {
			return fmt.Errorf("sharing: resource %s: replicas must be at least 1, is %d", name, r.Replicas)
		}
		if r.Rename != "" || r.Devices != nil && r.Devices != "all" {
			c.note("%s: rename and devices are not translated: k8s-device-plugin ignores them. A selector of the resource chooses devices.", name)
		}
		target, err := c.resource(name)
		if err != nil {
			return err
		}
		if r.Replicas == 1 {
			continue
		}
		target.Replicas = r.Replicas
		if shared.RenameByDefault {
			target.Name += ".shared"
			c.backend.Settings.Labels.PlainProduct = true
		}
		switch {
		case mps && target.Class != "gpu":
			return fmt.Errorf("sharing: resource %s: MPS does not share MIG devices", name)
		case mps:
			c.backend.Settings.MPS.Replicas = r.Replicas
			c.note("%s: MPS needs a control daemon: see backends/nvidia/mps/README.md.", name)
		case !shared.FailRequestsGreaterThanOne:
			c.note("%s: accelmux refuses a request for more than one replica: a second one gives no more of a GPU. "+
				"k8s-device-plugin allows it unless failRequestsGreaterThanOne is set. To allow it here, add maxReplicasPerContainer: 0 to the resource.", target.Name)
		}
	}
	return nil
}

// A profile in the name of a resource has a dot instead of the plus: mig-1g.10gb.me.
var migName = regexp.MustCompile(`^nvidia\.com/mig-((?:\d+c\.)?\d+g\.\d+gb)(?:\.(.+))?$`)

// resource returns the resource of that name; one of a MIG profile is added before the one for
// all profiles.
func (c *conversion) resource(name string) (*resource, error) {
	at := slices.IndexFunc(c.resources, func(r resource) bool { return r.Name == name })
	if at >= 0 {
		return &c.resources[at], nil
	}
	match := migName.FindStringSubmatch(name)
	if match == nil {
		return nil, fmt.Errorf("sharing: k8s-device-plugin has no resource %q: nvidia.com/gpu, or nvidia.com/mig-<profile>", name)
	}
	profile := match[1]
	if match[2] != "" {
		profile += "+" + match[2]
	}
	if c.backend.Settings.MIG.Strategy != "mixed" {
		c.note("%s: there is no such resource without migStrategy: mixed.", name)
	}
	c.resources = slices.Insert(c.resources, 1, resource{
		Name: name, Class: "mig", Selector: fmt.Sprintf(`device.attributes["nvidia"].profile == %q`, profile),
	})
	return &c.resources[1], nil
}
