package convert

import (
	"fmt"
	"path"
	"regexp"
	"regexp/syntax"
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
		if _, err := regexp.Compile(e.DeviceMatch); err != nil || e.DeviceMatch == "" {
			return nil, d.notes, in.refuse(at+".devicematch", "%q is not a regular expression for names below /dev", e.DeviceMatch)
		}
		name, count := in.at(at+".devicematch"), in.at(at+".nummaxdevices")
		d.entry = origins{"": name, "count": count, "replicas": count}
		d.add(e)
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

func (d *smarter) add(e smarterDevice) {
	if e.DeviceMatch == "nvidia-gpu" {
		d.note("nvidia-gpu is not translated: the backend nvidia serves NVIDIA's GPUs.")
		return
	}
	text, anchored := strings.CutPrefix(e.DeviceMatch, "^")
	text, whole := strings.CutSuffix(text, "$")
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil || parsed.Op == syntax.OpAlternate && (anchored || whole) { // such as one that ends in \$, or ^a|b$
		text, anchored, whole = e.DeviceMatch, false, false
		parsed, _ = syntax.Parse(text, syntax.Perl) // it was compiled
	}
	all := beginnings(parsed)
	dir, _ := path.Split(all[0].text)
	for _, b := range all {
		if b.text == "" || path.Clean("/dev/"+b.text) == "/dev" {
			d.note("%s is not translated: it has no beginning of a name; write a kind with paths for each device.", e.DeviceMatch)
			return
		}
		if other, _ := path.Split(b.text); other != dir {
			d.note("%s is not translated: it matches names in several directories; write an entry for each.", e.DeviceMatch)
			return
		}
	}
	if len(all) == 1 && all[0].whole && anchored && whole {
		d.serveNamed(all[0].text, e, deviceKind{Match: kindMatch{Paths: []string{"/dev/" + exactly(all[0].text)}}})
		return
	}
	if !anchored {
		d.note("%s matches names that begin with it; smarter-device-manager would also find it elsewhere in a name: write ^ at its beginning.", e.DeviceMatch)
	}
	d.servePattern(all, text, whole, e)
}

// beginning is how texts begin that an expression matches; whole: such a text has nothing more.
type beginning struct {
	text  string
	whole bool
}

// maxBeginnings bounds the alternatives of an expression.
const maxBeginnings = 16

// beginnings returns how all texts begin that an expression matches at their beginning, at least one. One with more alternatives
// than maxBeginnings begins with anything.
func beginnings(re *syntax.Regexp) (all []beginning) {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return []beginning{{string(re.Rune), true}}
		}
	case syntax.OpEmptyMatch:
		return []beginning{{"", true}}
	case syntax.OpCapture:
		return beginnings(re.Sub[0])
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			all = append(all, beginnings(sub)...)
		}
	case syntax.OpConcat:
		all = []beginning{{"", true}}
		for _, sub := range re.Sub {
			var longer []beginning
			for _, b := range all {
				if !b.whole {
					longer = append(longer, b)
					continue
				}
				for _, next := range beginnings(sub) {
					longer = append(longer, beginning{b.text + next.text, next.whole})
				}
			}
			if all = longer; len(all) > maxBeginnings {
				break
			}
		}
	}
	if len(all) == 0 || len(all) > maxBeginnings {
		return []beginning{{}}
	}
	return all
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
func (d *smarter) servePattern(all []beginning, text string, whole bool, e smarterDevice) {
	d.patterns++
	attribute := "file"
	if d.patterns > 1 {
		attribute += strconv.Itoa(d.patterns)
	}
	expression := "^/dev/(?:" + text + ")"
	if whole {
		expression += "$"
	}
	dir, _ := path.Split(all[0].text)
	var paths []string
	for _, b := range all {
		file := "/dev/" + exactly(b.text)
		if !b.whole || !whole {
			file += "*"
		}
		paths = append(paths, file)
	}
	resource := smarterDomain + "/" + strings.ReplaceAll(dir, "/", "_") + "{" + attribute + "}"
	shares := d.shares(resource, e.NumMaxDevices)
	k := deviceKind{
		Match:      kindMatch{Paths: paths, Where: "node.matches(" + strconv.Quote(expression) + ")"},
		ID:         "{name}", // which is that of its resource, too
		Attributes: map[string]string{attribute: "name"},
	}
	if shares > 1 {
		k.Count = shares
	}
	d.serve(resource, shares, d.entry, d.described.add(all[0].text, k, d.entry))
}
