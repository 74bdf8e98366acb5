package agent

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/test/patience"
)

// pictures is where TestPage stores pictures of the page; "" for nowhere. With it the test takes a minute longer,
// for charts with values.
var pictures = flag.String("pictures", "", "`directory` for pictures of the page")

const pageConfig = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: mock
        settings:
          scenarioFile: DIR/scenario.yaml
          devices:
            - {count: 8, id: "GPU-{{.Index}}d2c4a1e-0f7b-4c55-8a0e-2f1d3b6c7e8{{.Index}}", model: Mock M1, memory: 80Gi, numaNodes: 2, links: {topology: hive, size: 4, count: 12}}
            - {count: 2, class: fpga, id: "fpga-{{.Index}}", model: Mock F1, numaNodes: [0, 1]}
        recovery: {delay: 0s}
        telemetry: {interval: 1s}
      - name: parts
        command: accelmux-backend-mock
        settings: {count: 1, class: npu, id: "npu-{{.Index}}", model: Mock P1, memory: 192Gi, partitions: {count: 64}}
        telemetry: {interval: 1s}
    resources:
      - {name: example.com/gpu, class: gpu}
      - {name: example.com/fpga, class: fpga}
      - {name: example.com/npu, class: npu}
`

// inPage finds what a reader could not use: content wider than the window, text with a contrast below 4.5 to 1 (WCAG
// 2.2, 1.4.3), names of rows that are narrower than they could be in a narrow window, headings that skip a level, IDs and names of controls that are missing or there twice.
const inPage = `(() => {
  const wrong = [], root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) wrong.push("the page is " + root.scrollWidth + " wide, the window " + root.clientWidth);
  const rgb = text => (text.match(/[\d.]+/g) || []).map(Number);
  const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b };
  const visible = c => c.length === 3 || c.length === 4 && c[3] > 0;
  const behind = e => {
    const rect = e.matches("svg text") && e.parentNode.querySelector("rect");
    if (rect && visible(rgb(getComputedStyle(rect).fill))) return rgb(getComputedStyle(rect).fill);
    for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (visible(c)) return c }
    return [255, 255, 255];
  };
  if (root.clientWidth < 700) for (const e of document.querySelectorAll("tbody th")) {
    if (e.offsetWidth < e.closest("table").offsetWidth - 4) { wrong.push("a name is " + e.offsetWidth + " wide: " + e.innerText.slice(0, 40)); break }
  }
  let texts = 0;
  for (const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); walk.nextNode();) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || e.matches("title, style")) continue;
    texts++;
    const is = getComputedStyle(e), front = light(rgb(e.matches("svg text") ? is.fill : is.color).slice(0, 3)), back = light(behind(e).slice(0, 3));
    const contrast = (Math.max(front, back) + .05) / (Math.min(front, back) + .05);
    if (contrast < 4.5) wrong.push(contrast.toFixed(2) + " to 1: " + walk.currentNode.data.trim().slice(0, 40));
  }
  if (texts < 100) wrong.push("only " + texts + " texts");
  let level = 0;
  for (const h of document.querySelectorAll("h1, h2, h3")) { const n = +h.tagName[1]; if (n > level + 1) wrong.push("heading " + h.textContent); level = n }
  if (document.querySelectorAll("h1").length !== 1 || !document.title || !root.lang) wrong.push("no title, language or first heading");
  const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
  if (new Set(ids).size !== ids.length) wrong.push("an ID is there twice");
  for (const a of document.querySelectorAll("a")) {
    if (!a.textContent.trim()) wrong.push("a link without text");
    const to = a.getAttribute("href");
    if (to[0] === "#" && !document.getElementById(to.slice(1))) wrong.push("nothing is at " + to);
  }
  return wrong;
})()`

// Verifies in a browser that the page of a node with faults, partitions and links fits windows of three widths, can be
// read in both schemes, and breaks none of its own policies; and that only a reader on the machine sees the names of
// pods.
func TestPage(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	n := newNode(t)
	n.startKubelet()
	n.configure(pageConfig)
	options := n.options()
	withMetrics(&options)
	quickUsage(&options)
	n.startAgentWith(options)
	n.wantCounts(gpu, 8, 8)
	n.wantCounts("example.com/npu", 64, 64)
	n.allocate("team/serve", "example.com/npu", 1)
	held := n.allocate("team/train", gpu, 3)
	n.scenario("devices: {" + held[1] + ": {fault: {code: xid-79, message: the GPU has fallen off the bus, recovery: reboot}}, fpga-9: {fault: {code: hot, message: 97 °C, recovery: self}}}")
	n.wantCounts(gpu, 8, 7)
	n.wantCounts(fpga, 2, 1)
	n.eventually("the holder is known", func() bool { return strings.Contains(n.page("localhost"), "team/<wbr>train/<wbr>main") })
	if text := n.page("node-1.example.com"); strings.Contains(text, "team") || !strings.Contains(text, "a pod") {
		t.Error("a reader from the network sees the names of pods")
	}
	if *pictures != "" {
		for range 60 {
			n.page("localhost")
			<-time.After(time.Second)
		}
	}
	address := "http://" + n.agent.MetricsAddress() + "/"
	for _, path := range []string{"", "?refresh", "?device=mock%2F" + held[1]} {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int{360, 800, 1440} {
				b.show(address+path, width, scheme)
				var wrong []string
				if b.evaluate(inPage, &wrong); len(wrong) > 0 {
					t.Errorf("/%s, %d wide, %s:\n%s", path, width, scheme, strings.Join(wrong, "\n"))
				}
				if *pictures != "" {
					b.picture(filepath.Join(*pictures, fmt.Sprintf("page%.4s-%d-%s.png", strings.Trim(path, "?"), width, scheme)), width, 0)
				}
			}
		}
	}
	if *pictures != "" { // for the README
		b.show(address, 1400, "light")
		b.picture(filepath.Join(*pictures, "page.png"), 1400, 1000)
	}
	for _, c := range b.complaints {
		t.Errorf("the browser complains: %s", c)
	}
}

// page returns the agent's page as a reader who asks for a host gets it.
func (n *node) page(host string) string {
	n.Helper()
	request, err := http.NewRequest(http.MethodGet, "http://"+n.agent.MetricsAddress()+"/", http.NoBody)
	if err != nil {
		n.Fatal(err)
	}
	request.Host = host
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience.Long}
	response, err := client.Do(request)
	if err != nil {
		n.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		n.Fatalf("%s, %v:\n%s", response.Status, err, text)
	}
	return string(text)
}
