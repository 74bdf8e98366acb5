package convert

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// replicated is how the file shares resources in one way.
type replicated struct {
	RenameByDefault            bool `yaml:"renameByDefault"`
	FailRequestsGreaterThanOne bool `yaml:"failRequestsGreaterThanOne"`
	Resources                  []struct {
		Name     string `yaml:"name"`
		Rename   string `yaml:"rename"`
		Replicas int    `yaml:"replicas"`
	} `yaml:"resources"`
}

// maxMPS is how many containers the backend lets share a GPU by MPS.
const maxMPS = 100

func (c *conversion) sharing() error {
	var section struct {
		TimeSlicing *replicated `yaml:"timeSlicing"`
		MPS         *replicated `yaml:"mps"`
	}
	part := c.values["sharing"].part
	taken(part, "strategy")
	devices := map[string][]string{}
	for _, way := range []string{"timeSlicing", "mps"} {
		if list := field(part, way, "resources"); list != nil {
			for _, r := range list.Content {
				devices[way] = append(devices[way], taken(r, "devices"))
			}
		}
	}
	if err := c.section("sharing", &section); err != nil {
		return err
	}
	switch {
	case section.TimeSlicing != nil && section.MPS != nil:
		return c.input.refuse("sharing.mps", "timeSlicing and mps exclude each other")
	case section.TimeSlicing != nil:
		return c.share("sharing.timeSlicing", section.TimeSlicing, devices["timeSlicing"])
	case section.MPS != nil:
		return c.share("sharing.mps", section.MPS, devices["mps"])
	}
	return nil
}

// share translates shared resources.
func (c *conversion) share(at string, shared *replicated, devices []string) error {
	mps := at == "sharing.mps"
	given := map[string]bool{}
	for i, r := range shared.Resources {
		at := fmt.Sprintf("%s.resources[%d]", at, i)
		name := r.Name
		if !strings.Contains(name, "/") {
			name = "nvidia.com/" + name
		}
		switch {
		case given[name]:
			return c.input.refuse(at+".name", "%s is there twice", name)
		case r.Replicas < 1:
			return c.input.refuse(at+".replicas", "must be at least 1, is %d", r.Replicas)
		case mps && r.Replicas > maxMPS:
			return c.input.refuse(at+".replicas", "at most %d containers can share a GPU by MPS, not %d", maxMPS, r.Replicas)
		}
		given[name] = true
		if r.Rename != "" || devices[i] != "" && devices[i] != "all" {
			c.note("%s: rename and devices are not translated: k8s-device-plugin ignores them. A selector of the resource chooses devices.", name)
		}
		target, err := c.resource(at, name)
		if err != nil {
			return err
		}
		if r.Replicas == 1 {
			continue
		}
		target.Replicas = c.shares(name, r.Replicas)
		if shared.RenameByDefault {
			target.Name += ".shared"
			c.backend.Settings.Labels.PlainProduct = true
		}
		switch {
		case mps && target.Class != "gpu":
			return c.input.refuse(at+".name", "MPS does not share MIG devices, such as %s", name)
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

// A profile in the name of a resource has a dot instead of the plus: mig-1g.10gb.me for 1g.10gb+me, mig-1g.10gb-me for
// 1g.10gb-me.
var migName = regexp.MustCompile(`^nvidia\.com/mig-((?:\d+c\.)?\d+g\.\d+gb(?:-.+)?)(?:\.(.+))?$`)

// resource returns the resource of that name; one of a MIG profile is added before the one for
// all profiles.
func (c *conversion) resource(at, name string) (*resource, error) {
	i := slices.IndexFunc(c.resources, func(r resource) bool { return r.Name == name })
	if i >= 0 {
		return &c.resources[i], nil
	}
	match := migName.FindStringSubmatch(name)
	if match == nil {
		return nil, c.input.refuse(at+".name", "k8s-device-plugin has no resource %q: nvidia.com/gpu, or nvidia.com/mig-<profile>", name)
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
