package convert

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// smarterDevice is an entry of the configuration of smarter-device-manager.
type smarterDevice struct {
	DeviceMatch   string `yaml:"devicematch"`
	NumMaxDevices int    `yaml:"nummaxdevices"`
}

// smarterDomain is that of its resources.
const smarterDomain = "smarter-devices"

// Smarter translates the configuration of smarter-device-manager
// (https://github.com/smarter-project/smarter-device-manager).
func Smarter(s Source) ([]byte, []string, error) {
	if len(s.Args) > 0 {
		return nil, nil, fmt.Errorf("%q: the flags of smarter-device-manager are not translated; give its file as FILE", s.Args[0])
	}
	root, in, err := open(s, "")
	if err != nil {
		return nil, nil, err
	}
	if root.Kind != yaml.SequenceNode {
		return nil, nil, in.refuse("", "it must be a list with devicematch and nummaxdevices, as in\n- devicematch: ^fuse$\n  nummaxdevices: 20")
	}
	var entries []smarterDevice
	if err := in.decode(root, "", &entries); err != nil {
		return nil, nil, err
	}
	d := &smarter{described: described{overlap: " The plugin serves it by each of them."}}
	for i, e := range entries {
		at := fmt.Sprintf("[%d]", i)
		if e.NumMaxDevices < 1 {
			return nil, d.notes, in.refuse(at+".nummaxdevices", "%d must be at least 1", e.NumMaxDevices)
		}
		re, err := regexp.Compile(e.DeviceMatch)
		if err != nil || e.DeviceMatch == "" {
			return nil, d.notes, in.refuse(at+".devicematch", "%q is not a regular expression for names below /dev", e.DeviceMatch)
		}
		name, count := in.at(at+".devicematch"), in.at(at+".nummaxdevices")
		d.entry = origins{"": name, "count": count, "replicas": count}
		d.add(re, e)
	}
	return d.result(in.at(""))
}

// smarter is a conversion in progress.
type smarter struct {
	described
	// entry has the origins of what the entry that is translated becomes.
	entry origins
	// patterns is the number of entries that match several devices.
	patterns int
}

func (d *smarter) add(re *regexp.Regexp, e smarterDevice) {
	if e.DeviceMatch == "nvidia-gpu" {
		d.note("nvidia-gpu is not translated: the backend nvidia serves NVIDIA's GPUs.")
		return
	}
	text, anchored := strings.CutPrefix(e.DeviceMatch, "^")
	text, whole := strings.CutSuffix(text, "$")
	if bare, err := regexp.Compile(text); err == nil {
		re = bare
	} else { // such as one that ends in \$
		text, anchored, whole = e.DeviceMatch, false, false
	}
	prefix, complete := re.LiteralPrefix()
	switch {
	case complete && anchored && whole:
		d.serveNamed(prefix, e, deviceKind{Match: kindMatch{Paths: []string{"/dev/" + exactly(prefix)}}})
	case prefix == "" || path.Clean("/dev/"+prefix) == "/dev":
		d.note("%s is not translated: it has no beginning of a name; write a kind with paths for each device.", e.DeviceMatch)
	default:
		if !anchored {
			d.note("%s matches names that begin with it; smarter-device-manager would also find it elsewhere in a name: write ^ at its beginning.", e.DeviceMatch)
		}
		d.servePattern(prefix, text, whole, e)
	}
}

// serveNamed serves a device, or a directory, that the file names.
func (d *smarter) serveNamed(name string, e smarterDevice, k deviceKind) {
	resource := smarterDomain + "/" + strings.ReplaceAll(name, "/", "_")
	shares := d.shares(resource, e.NumMaxDevices)
	if shares > 1 {
		k.Count = shares
	}
	d.serve(resource, shares, d.entry, d.described.add(name, k, d.entry))
}

// servePattern serves each of the devices whose names match under its own name.
func (d *smarter) servePattern(prefix, text string, whole bool, e smarterDevice) {
	d.patterns++
	attribute := "file"
	if d.patterns > 1 {
		attribute += strconv.Itoa(d.patterns)
	}
	expression := "^/dev/(?:" + text + ")"
	if whole {
		expression += "$"
	}
	dir, _ := path.Split(prefix)
	resource := smarterDomain + "/" + strings.ReplaceAll(dir, "/", "_") + "{" + attribute + "}"
	shares := d.shares(resource, e.NumMaxDevices)
	k := deviceKind{
		Match:      kindMatch{Paths: []string{"/dev/" + exactly(prefix) + "*"}, Where: "node.matches(" + strconv.Quote(expression) + ")"},
		ID:         "{name}", // which is that of its resource, too
		Attributes: map[string]string{attribute: "name"},
	}
	if shares > 1 {
		k.Count = shares
	}
	d.serve(resource, shares, d.entry, d.described.add(prefix, k, d.entry))
}
