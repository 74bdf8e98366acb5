package convert

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
	sigs "sigs.k8s.io/yaml"

	"github.com/accelmux/accelmux/backends/device"
	"github.com/accelmux/accelmux/core/config"
)

// The parts of a kind of the backend for described devices (docs/device.md) that a conversion
// writes, in the order in which they are written.
type (
	deviceKind struct {
		Name       string            `yaml:"name"`
		Match      kindMatch         `yaml:"match"`
		ID         string            `yaml:"id,omitempty"`
		MergeBy    string            `yaml:"mergeBy,omitempty"`
		Attributes map[string]string `yaml:"attributes,omitempty"`
		Count      int               `yaml:"count,omitempty"`
		Edits      kindEdits         `yaml:"edits,omitempty"`
		Health     []kindHealth      `yaml:"health,omitempty"`
		DeviceInfo *kindInfo         `yaml:"deviceInfo,omitempty"`
	}
	kindMatch struct {
		Paths []string  `yaml:"paths,omitempty,flow"`
		PCI   *pciMatch `yaml:"pci,omitempty"`
		USB   *usbMatch `yaml:"usb,omitempty"`
		Where string    `yaml:"where,omitempty"`
	}
	pciMatch struct {
		Vendors []string `yaml:"vendors,omitempty,flow"`
		Devices []string `yaml:"devices,omitempty,flow"`
		Classes []string `yaml:"classes,omitempty,flow"`
		Drivers []string `yaml:"drivers,omitempty,flow"`
	}
	usbMatch struct {
		Products []string `yaml:"products,omitempty,flow"`
		Serials  []string `yaml:"serials,omitempty,flow"`
	}
	kindEdits struct {
		Nodes     []kindNode            `yaml:"nodes,omitempty"`
		Mounts    []kindMount           `yaml:"mounts,omitempty"`
		Env       map[string]string     `yaml:"env,omitempty"`
		JoinedEnv map[string]kindJoined `yaml:"joinedEnv,omitempty"`
	}
	kindNode struct {
		Path          string `yaml:"path"`
		ContainerPath string `yaml:"containerPath,omitempty"`
		Permissions   string `yaml:"permissions,omitempty"`
		Optional      bool   `yaml:"optional,omitempty"`
	}
	kindMount struct {
		Path          string `yaml:"path"`
		ContainerPath string `yaml:"containerPath,omitempty"`
		Writable      bool   `yaml:"writable,omitempty"`
		Optional      bool   `yaml:"optional,omitempty"`
	}
	kindJoined struct {
		Value string `yaml:"value"`
	}
	kindInfo struct {
		Resource string            `yaml:"resource"`
		Type     string            `yaml:"type,omitempty"`
		Fields   map[string]string `yaml:"fields"`
	}
	kindHealth struct {
		Fault   string `yaml:"fault"`
		When    string `yaml:"when"`
		Message string `yaml:"message"`
	}
	kindsSettings struct {
		Kinds []deviceKind `yaml:"kinds"`
	}
	kindsBackend struct {
		Name     string        `yaml:"name"`
		Settings kindsSettings `yaml:"settings"`
	}
	// poolResource is a resource of described devices.
	poolResource struct {
		Name     string `yaml:"name"`
		Backend  string `yaml:"backend"`
		Selector string `yaml:"selector"`
		Replicas int    `yaml:"replicas,omitempty"`
		kinds    []string
	}
)

// deviceBackend is the name of the backend for described devices.
const deviceBackend = "device"

// maxReplicas is how many containers can share a device.
const maxReplicas = 1000

// described is a node configuration of described devices, in the making.
type described struct {
	notes
	kinds     []deviceKind
	resources []poolResource
	// from has the origins of kinds[…] and resources[…].
	from origins
	// overlap is what the plugin does with a device that several of its resources select.
	overlap string
}

// notes are what the result begins with.
type notes []string

// note adds a note once.
func (n *notes) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(*n, text) {
		*n = append(*n, text)
	}
}

var notInKind = regexp.MustCompile(`[^a-z0-9]+`)

// maxKindName is the length of a kind's name.
const maxKindName = 32

// name returns a name for a kind that none has yet: text, as far as it is possible.
func (d *described) name(text string) string {
	base := strings.Trim(notInKind.ReplaceAllString(strings.ToLower(text), "-"), "-")
	if base == "" || base[0] >= '0' && base[0] <= '9' {
		base = strings.TrimSuffix("d-"+base, "-")
	}
	for n := 1; ; n++ {
		end := ""
		if n > 1 {
			end = "-" + strconv.Itoa(n)
		}
		name := strings.TrimRight(base[:min(len(base), maxKindName-len(end))], "-") + end
		if !slices.ContainsFunc(d.kinds, func(k deviceKind) bool { return k.Name == name }) {
			return name
		}
	}
}

// add adds a kind with the origins of its parts under a name like base, and returns the name.
func (d *described) add(base string, k deviceKind, from origins) string {
	k.Name = d.name(base)
	d.origins().put(fmt.Sprintf("kinds[%d]", len(d.kinds)), from)
	d.kinds = append(d.kinds, k)
	return k.Name
}

func (d *described) origins() origins {
	if d.from == nil {
		d.from = origins{}
	}
	return d.from
}

// serve adds devices of kinds to a resource whose name and shares are from some place, each for so many containers.
func (d *described) serve(resource string, shares int, from origins, kinds ...string) {
	i := slices.IndexFunc(d.resources, func(r poolResource) bool { return r.Name == resource })
	if i < 0 {
		i = len(d.resources)
		d.resources = append(d.resources, poolResource{Name: resource, Backend: deviceBackend})
		d.origins().put(fmt.Sprintf("resources[%d]", i), from)
	}
	r := &d.resources[i]
	r.kinds = append(r.kinds, kinds...)
	const attribute = `device.attributes["` + deviceBackend + `"].kind`
	if len(r.kinds) == 1 {
		r.Selector = attribute + " == " + strconv.Quote(r.kinds[0])
	} else {
		r.Selector = attribute + " in " + listOf(r.kinds)
	}
	if shares > 1 {
		r.Replicas = shares
		d.note("%s: a container gets one share; a second one gives no more of a device. To allow it, add maxReplicasPerContainer: 0 to the resource.", resource)
	}
}

// shares bounds for how many containers a device is.
func (n *notes) shares(resource string, wanted int) int {
	if wanted > maxReplicas {
		n.note("%s: %d containers would share a device; %d can.", resource, wanted, maxReplicas)
	}
	return min(wanted, maxReplicas)
}

// result is the node configuration. whole is the origin of what has no other one.
func (d *described) result(whole origin) ([]byte, []string, error) {
	if len(d.resources) == 0 {
		if len(d.notes) == 0 {
			return nil, nil, whole.refuse("the configuration has no devices")
		}
		return nil, d.notes, whole.refuse("nothing of the configuration has a counterpart")
	}
	d.origins()[""] = whole
	if len(d.resources) > 1 {
		d.note("A device that several resources select is one of the first of them, in this order, with a problem in status: narrow the selection.%s", d.overlap)
	}
	backend := kindsBackend{Name: deviceBackend, Settings: kindsSettings{d.kinds}}
	if err := check(backend.Settings); err != nil {
		return nil, d.notes, d.from.tracedFields(err, "")
	}
	return writeProfiles(d.notes, []profile{{Name: config.DefaultProfile, Backends: []kindsBackend{backend}, Resources: d.resources, origins: d.from}})
}

// check checks the settings as the backend does.
func check(settings kindsSettings) error {
	text, err := yaml.Marshal(settings)
	if err == nil {
		text, err = sigs.YAMLToJSON(text)
	}
	if err != nil {
		return err
	}
	return device.Check(text)
}

// profile is one of a node configuration.
type profile struct {
	Name         string        `yaml:"name"`
	NodeSelector *nodeSelector `yaml:"nodeSelector,omitempty"`
	Backends     any           `yaml:"backends"`
	Resources    any           `yaml:"resources"`
	origins      origins
}

type nodeSelector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

// writeProfiles writes a node configuration, and checks it.
func writeProfiles(notes []string, profiles []profile) ([]byte, []string, error) {
	var out bytes.Buffer
	fmt.Fprintln(&out, config.Modeline)
	for _, note := range notes {
		fmt.Fprintf(&out, "# %s\n", strings.Map(oneLine, note))
	}
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err := encoder.Encode(struct {
		APIVersion string    `yaml:"apiVersion"`
		Kind       string    `yaml:"kind"`
		Profiles   []profile `yaml:"profiles"`
	}{config.APIVersion, config.Kind, profiles})
	if err != nil {
		return nil, notes, fmt.Errorf("write the node configuration: %w", err)
	}
	if _, err := config.Parse("", out.Bytes()); err != nil {
		return nil, notes, traced(err, profiles)
	}
	return out.Bytes(), notes, nil
}

// oneLine makes a space of a character that would end a comment.
func oneLine(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}

// listOf is a list of texts in CEL.
func listOf(texts []string) string {
	quoted := make([]string, len(texts))
	for i, t := range texts {
		quoted[i] = strconv.Quote(t)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// literal is a text in a template.
func literal(text string) string {
	return strings.NewReplacer("{", "{{", "}", "}}").Replace(text)
}

// variable is the name of a variable with the name of a resource, as the SR-IOV plugin and KubeVirt
// make it: a "-" stays.
func variable(prefix, resource string) string {
	return prefix + "_" + strings.NewReplacer("/", "_", ".", "_").Replace(strings.ToUpper(resource))
}

// all is the conjunction of conditions in CEL.
func all(conditions ...string) string { return joined(" && ", conditions) }

// anyOf is their disjunction.
func anyOf(conditions ...string) string {
	text := joined(" || ", conditions)
	if len(conditions) > 1 {
		text = "(" + text + ")"
	}
	return text
}

func joined(operator string, conditions []string) string {
	return strings.Join(slices.DeleteFunc(conditions, func(c string) bool { return c == "" }), operator)
}
