/* As little of libnvidia-ml.so.1 as lets the real loader be tested: no GPUs, few
 * functions, and events of the system. The driver is "loaded" while the file
 * that NVML_TEST_MODULE names exists. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int nvmlInit_v2(void) { return access(getenv("NVML_TEST_MODULE"), F_OK) == 0 ? 0 : 9; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *v, unsigned n) { snprintf(v, n, VERSION); return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 0; return 0; }

static int set;
int nvmlEventSetCreate(void **s) { *s = &set; return 0; }
int nvmlEventSetFree(void *s) { return s == &set ? 0 : 2; }
int nvmlEventSetWait_v2(void *s, void *data, unsigned ms) { usleep(ms * 1000); return 10; }
int nvmlDeviceRegisterEvents(void *d, unsigned long long t, void *s) { return 0; }

struct create { unsigned version; void *set; };
struct reg { unsigned version; unsigned long long types; void *set; };
struct event { unsigned long long type; unsigned gpu; };
struct wait { unsigned version, ms; void *set; struct event *data; unsigned size, n; };
int nvmlSystemEventSetCreate(struct create *r) { r->set = &set; return r->version == (sizeof *r | 1 << 24) ? 0 : 25; }
int nvmlSystemEventSetFree(struct create *r) { return r->set == &set ? 0 : 2; }
int nvmlSystemRegisterEvents(struct reg *r) { return r->set == &set && r->types == 3 ? 0 : 2; }
int nvmlSystemEventSetWait(struct wait *r) {
	usleep(10000);
	r->data[0].type = 2;
	r->data[0].gpu = 0x4100;
	r->n = 1;
	return 0;
}
