package convert

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/accelmux/accelmux/core/config"
)

// input is a file that is read strictly, with the positions of its fields for errors.
type input struct {
	file      string
	positions config.Positions
}

// document returns the document of a file, or the object of a list of one, as kubectl prints it.
func document(s Source) (*yaml.Node, input, error) {
	i := input{file: s.Name}
	if len(bytes.TrimSpace(s.File)) == 0 {
		return nil, i, errors.New("FILE is missing or empty: give the plugin's configuration file, or the object of the cluster that has it")
	}
	root, err := config.Document(s.Name, s.File)
	if err != nil {
		return nil, i, err
	}
	if items := field(root, "items"); kindOf(root) == "List" && items != nil && len(items.Content) == 1 {
		root = items.Content[0]
	}
	i.positions = config.Positions{"": config.PositionOf(root)}
	return root, i, nil
}

// open returns the configuration in a file: the document itself, or what an object of the cluster has as text. Such
// objects are a ConfigMap with one value, and the policies of NVIDIA's network operator, whose section for the plugin
// is called section; "" if they have none (api/v1alpha1 of https://github.com/Mellanox/network-operator: the field
// config of DevicePluginSpec).
func open(s Source, section string) (*yaml.Node, input, error) {
	root, i, err := document(s)
	if err != nil {
		return nil, i, err
	}
	switch kindOf(root) {
	case "ConfigMap":
		data := field(root, "data")
		if data == nil || data.Kind != yaml.MappingNode || len(data.Content) != 2 || data.Content[1].Kind != yaml.ScalarNode {
			return nil, i, i.refuse("data", "the ConfigMap must have one value, which is the configuration; of several give one in a file of its own")
		}
		return i.inner(fmt.Sprintf("data[%q]", data.Content[0].Value), data.Content[1])
	case "NicClusterPolicy", "NicNodePolicy":
		text := field(root, "spec", section, "config")
		if section == "" || text == nil || text.Kind != yaml.ScalarNode {
			return nil, i, i.refuse("spec", "%s", policyHint(root, section))
		}
		return i.inner("spec."+section+".config", text)
	case "DaemonSet":
		return nil, i, i.refuse("", "%s", mountedHint(root, "this is the DaemonSet of the plugin, and its configuration is elsewhere: give the file that it reads"))
	}
	return root, i, nil
}

// policySections are the plugins in a policy of NVIDIA's network operator, and the commands that translate them.
var policySections = map[string]string{"rdmaSharedDevicePlugin": "rdma-shared-device-plugin", "sriovDevicePlugin": "sriov-device-plugin"}

// policyHint is what to do with a policy that has no configuration of the plugin.
func policyHint(root *yaml.Node, section string) string {
	for other, command := range policySections {
		if other != section && field(root, "spec", other, "config") != nil {
			return fmt.Sprintf("the policy has no configuration of this plugin; `accelmux convert %s` translates its %s", command, other)
		}
	}
	return "the policy has no configuration of this plugin: it is in config of rdmaSharedDevicePlugin or sriovDevicePlugin"
}

// mountedHint is what to do with a DaemonSet whose configuration is in a ConfigMap; otherwise if it mounts none.
func mountedHint(root *yaml.Node, otherwise string) string {
	name := mounted(root)
	if name == "" {
		return otherwise
	}
	return fmt.Sprintf("this is the DaemonSet of the plugin, whose configuration is in the ConfigMap %s that it mounts: give that, from `kubectl get configmap%s %[1]s -o yaml`",
		name, joinedWith(" -n ", valueOf(field(root, "metadata", "namespace"))))
}

// mounted is the name of the ConfigMap that the pods of a DaemonSet mount; "" for none.
func mounted(root *yaml.Node) string {
	if volumes := field(root, "spec", "template", "spec", "volumes"); volumes != nil {
		for _, v := range volumes.Content {
			if name := cmp.Or(valueOf(field(v, "configMap", "name")), configMapIn(field(v, "projected", "sources"))); name != "" {
				return name
			}
		}
	}
	return ""
}

func configMapIn(sources *yaml.Node) string {
	if sources != nil {
		for _, s := range sources.Content {
			if name := valueOf(field(s, "configMap", "name")); name != "" {
				return name
			}
		}
	}
	return ""
}

func joinedWith(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// inner returns the document in a value of another one, which has the lines of the outer file.
func (i input) inner(field string, value *yaml.Node) (*yaml.Node, input, error) {
	i.file = fmt.Sprintf("%s (%s)", i.file, field)
	if strings.TrimSpace(value.Value) == "" {
		return nil, i, origin{i.file, config.Position{Line: value.Line}, ""}.refuse("it is empty")
	}
	root, err := config.Document(i.file, []byte(value.Value))
	shift := value.Line - 1
	if value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		shift++ // the text begins on the line after the | or >
	}
	if err != nil {
		return nil, i, moved(err, shift)
	}
	move(root, shift)
	i.positions = config.Positions{"": config.PositionOf(root)}
	return root, i, nil
}

// decode decodes a part of the document.
func (i *input) decode(node *yaml.Node, at string, into any) (err error) {
	i.positions, err = config.Decode(i.file, node, at, into)
	return err
}

// field returns the value of a field of a mapping; nil if there is none.
func field(n *yaml.Node, path ...string) *yaml.Node {
	for _, name := range path {
		var value *yaml.Node
		if n != nil && n.Kind == yaml.MappingNode {
			for j := 0; j+1 < len(n.Content); j += 2 {
				if n.Content[j].Value == name {
					value = n.Content[j+1]
				}
			}
		}
		n = value
	}
	return n
}

// taken takes a field that may have any type out of a mapping, and returns its text, "..." if it is no scalar.
func taken(n *yaml.Node, name string) string {
	if n == nil || n.Kind != yaml.MappingNode {
		return ""
	}
	for j := 0; j+1 < len(n.Content); j += 2 {
		if n.Content[j].Value == name {
			value := n.Content[j+1]
			n.Content = slices.Delete(n.Content, j, j+2)
			return cmp.Or(valueOf(value), "...")
		}
	}
	return ""
}

// valueOf returns a scalar; "" for another node, or none.
func valueOf(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

func kindOf(root *yaml.Node) string { return valueOf(field(root, "kind")) }

// move adds to the lines of a node and of what is in it. Their columns are those in the value of a ConfigMap,
// and not known in the file.
func move(n *yaml.Node, lines int) {
	n.Line, n.Column = n.Line+lines, 0
	for _, child := range n.Content {
		move(child, lines)
	}
}

// moved adds to the lines of errors.
func moved(err error, lines int) error {
	var all config.Errors
	if !errors.As(err, &all) {
		return err
	}
	for i := range all {
		all[i].Position = config.Position{Line: max(all[i].Line, 1) + lines}
	}
	return all
}

// deployed returns the source with the flags and variables of a plugin that is given as its DaemonSet, below those
// that are given beside it. A DaemonSet that mounts a ConfigMap has its configuration there.
func deployed(s Source) (Source, error) {
	if len(bytes.TrimSpace(s.File)) == 0 {
		return s, nil
	}
	root, i, err := document(s)
	if err != nil || kindOf(root) != "DaemonSet" {
		return s, err
	}
	if mounted(root) != "" {
		return s, i.refuse("", "%s as FILE, the flags of the DaemonSet after --, and its variables by --env", mountedHint(root, ""))
	}
	containers := field(root, "spec", "template", "spec", "containers")
	if containers == nil || len(containers.Content) != 1 {
		return s, i.refuse("spec.template.spec.containers", "a DaemonSet of one container can be read: give the flags of the plugin's container after --, and its variables by --env")
	}
	s.File = nil
	var args []string
	for _, name := range []string{"command", "args"} {
		if list := field(containers.Content[0], name); list != nil {
			for _, item := range list.Content {
				if len(args) > 0 || strings.HasPrefix(item.Value, "-") { // not the program
					args = append(args, item.Value)
				}
			}
		}
	}
	s.Args = append(args, s.Args...)
	env := map[string]string{}
	if list := field(containers.Content[0], "env"); list != nil {
		for _, item := range list.Content {
			if value := field(item, "value"); value != nil {
				env[valueOf(field(item, "name"))] = value.Value
			}
		}
	}
	for name, value := range s.Env {
		env[name] = value
	}
	s.Env = env
	return s, nil
}
