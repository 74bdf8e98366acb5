package device

import "path"

// stableLinks are the directories of links by which udev names devices whose nodes the kernel counts, with the nodes
// that they lead to: 60-serial.rules, 60-persistent-v4l.rules, 60-persistent-media-controller.rules,
// 60-persistent-alsa.rules, 60-drm.rules, 60-persistent-input.rules, 60-persistent-hidraw.rules and
// 60-gpiochip.rules in rules.d of systemd.
var stableLinks = []struct{ dir, nodes []string }{
	{[]string{"/dev/serial/by-id", "/dev/serial/by-path"}, []string{"/dev/ttyUSB*", "/dev/ttyACM*"}},
	{[]string{"/dev/v4l/by-id", "/dev/v4l/by-path"}, []string{"/dev/video*", "/dev/vbi*"}},
	{[]string{"/dev/media/by-path"}, []string{"/dev/media*"}},
	{[]string{"/dev/snd/by-id", "/dev/snd/by-path"}, []string{"/dev/snd/controlC*"}},
	{[]string{"/dev/dri/by-path"}, []string{"/dev/dri/card*", "/dev/dri/renderD*"}},
	{[]string{"/dev/input/by-id", "/dev/input/by-path"}, []string{"/dev/input/event*", "/dev/input/mouse*", "/dev/input/js*", "/dev/hidraw*"}},
	{[]string{"/dev/gpio/by-id", "/dev/gpio/by-path"}, []string{"/dev/gpiochip*"}},
}

// linkedNodes returns patterns for the nodes that links of a pattern lead to, whatever their numbers are.
func linkedNodes(pattern string) (nodes []string) {
	for _, links := range stableLinks {
		for _, dir := range links.dir {
			if ok, _ := path.Match(path.Dir(pattern), dir); ok {
				nodes = append(nodes, links.nodes...)
			}
		}
	}
	return nodes
}
