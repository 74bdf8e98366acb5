/* Initialisation, and the frame of every call: is the library initialised, is
 * the device there, does the call hang or fail. */
#define _POSIX_C_SOURCE 200809L
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "double.h"

/* Under source_lock. */
static u32 initialised;
static u64 epochs, generation, gpus;

static u64 generation_of(const struct file *file)
{
	const char *value = file_get(file, "driver.generation");
	u64 number;
	return value && value_number(value, &number) ? number : 0;
}

/* What hang or error says of the function: by its name, by its name without
 * the version, or of all functions. */
static const char *of_function(const struct call *call, const char *prefix, const char *kind)
{
	char key[KEY], base[KEY];
	const char *name = call->function, *found;
	snprintf(key, sizeof key, "%s%s.%s", prefix, kind, name);
	if ((found = file_get(call->file, key)))
		return found;
	snprintf(base, sizeof base, "%s", name);
	char *version = strstr(base, "_v");
	if (version) {
		*version = 0;
		snprintf(key, sizeof key, "%s%s.%s", prefix, kind, base);
		if ((found = file_get(call->file, key)))
			return found;
	}
	if (!call->epoch)
		return NULL; /* "all" leaves initialisation alone */
	snprintf(key, sizeof key, "%s%s.*", prefix, kind);
	return file_get(call->file, key);
}

/* Of the MIG device, its GPU, the whole library: the nearest counts. */
static const char *of_call(const struct call *call, const char *kind, bool whole)
{
	char prefix[48];
	const char *found = NULL;
	if (call->mig != NONE) {
		snprintf(prefix, sizeof prefix, "gpu.%d.mig.%d.", call->gpu, call->mig);
		found = of_function(call, prefix, kind);
	}
	if (!found && call->gpu != NONE) {
		snprintf(prefix, sizeof prefix, "gpu.%d.", call->gpu);
		found = of_function(call, prefix, kind);
	}
	return found || !whole ? found : of_function(call, "", kind);
}

static int failure(const struct call *call)
{
	if (call->epoch && generation_of(call->file) != generation)
		return UNINITIALIZED;
	const char *error = call->file->errors ? of_call(call, "error", true) : NULL;
	if (error && value_error(error) != SUCCESS)
		return value_error(error);
	if (call->gpu != NONE && !get(call, "uuid"))
		return call->mig == NONE ? GPU_IS_LOST : NOT_FOUND;
	return SUCCESS;
}

int again(struct call *call)
{
	int result = UNINITIALIZED;
	source_lock();
	source_release(call->file);
	call->file = source_newest();
	if (call->file)
		call->gpus = call->file->gpus;
	if (!call->epoch || (initialised && call->epoch == epochs))
		result = call->file ? failure(call) : DRIVER_NOT_LOADED;
	source_unlock();
	return result;
}

void wait_newer(const struct call *call, u64 deadline)
{
	source_lock();
	for (;;) {
		struct file *now = source_newest();
		bool same = now == call->file && (!call->epoch || (initialised && call->epoch == epochs));
		source_release(now);
		if (!same || now_ms() >= deadline)
			break;
		source_wait(deadline);
	}
	source_unlock();
}

/* Hangs for the time that the file says, or until it no longer says so. */
static void hang(struct call *call, bool whole)
{
	u64 start = now_ms(), time = 0;
	while (call->file && call->file->hangs) {
		const char *value = of_call(call, "hang", whole);
		time = value ? value_milliseconds(value) : 0;
		if (!time || now_ms() - start > time)
			return;
		wait_newer(call, start + time + 1);
		again(call);
	}
}

static int enter(struct call *call, bool whole)
{
	hang(call, whole);
	return again(call);
}

static int place(struct call *call, int gpu, int mig, bool whole)
{
	call->gpu = gpu;
	call->mig = mig;
	if (mig != NONE)
		snprintf(call->prefix, sizeof call->prefix, "gpu.%d.mig.%d.", gpu, mig);
	else
		snprintf(call->prefix, sizeof call->prefix, "gpu.%d.", gpu);
	return enter(call, whole);
}

int locate(struct call *call, int gpu, int mig)
{
	return place(call, gpu, mig, false);
}

int begin(struct call *call, const char *function, Device device)
{
	*call = (struct call){.function = function, .gpu = NONE, .mig = NONE};
	source_lock();
	call->epoch = initialised ? epochs : 0;
	call->file = source_newest();
	call->gpus = gpus;
	bool usable = initialised;
	source_unlock();
	if (!usable || !call->file)
		return UNINITIALIZED;
	if (!device)
		return enter(call, true);
	int gpu, mig;
	return handle_slots(device, &gpu, &mig) ? place(call, gpu, mig, true) : INVALID_ARGUMENT;
}

int end(struct call *call, int result)
{
	source_lock();
	source_release(call->file);
	source_unlock();
	return result;
}

static int initialise(const char *function)
{
	struct call call = {.function = function, .gpu = NONE, .mig = NONE};
	source_lock();
	bool found = source_open();
	call.file = found ? source_newest() : NULL;
	source_unlock();
	int result = found ? enter(&call, true) : DRIVER_NOT_LOADED;
	if (result == SUCCESS) {
		source_lock();
		if (!initialised++) {
			epochs++;
			generation = generation_of(call.file);
			gpus = call.file->gpus;
		}
		source_unlock();
	}
	return end(&call, result);
}

EXPORT int nvmlInit_v2(void)
{
	return initialise(__func__);
}

EXPORT int nvmlShutdown(void)
{
	struct call call = {.function = __func__, .gpu = NONE, .mig = NONE};
	source_lock();
	bool was = initialised > 0;
	if (was && !--initialised) {
		events_forget();
		source_wake();
	}
	source_unlock();
	return end(&call, was ? SUCCESS : UNINITIALIZED);
}

EXPORT const char *nvmlErrorString(int error)
{
	return error_text(error);
}

const char *get(const struct call *call, const char *format, ...)
{
	char name[KEY], key[KEY];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(name, sizeof name, format, arguments);
	va_end(arguments);
	size_t length = strlen(call->prefix);
	memcpy(key, call->prefix, length);
	snprintf(key + length, sizeof key - length, "%s", name);
	return file_get(call->file, key);
}

/* The value under the key, into `value`; leaves the caller's function if there is none. */
#define VALUE_OR_RETURN(out)                                       \
	char name[KEY];                                            \
	va_list arguments;                                         \
	va_start(arguments, format);                               \
	vsnprintf(name, sizeof name, format, arguments);           \
	va_end(arguments);                                         \
	const char *value = get(call, "%s", name);                 \
	if (!(out))                                                \
		return INVALID_ARGUMENT;                           \
	if (!value)                                                \
		return NOT_SUPPORTED;

int text(const struct call *call, char *out, u32 size, const char *format, ...)
{
	VALUE_OR_RETURN(out)
	return value_text(value, out, size) ? SUCCESS : INSUFFICIENT_SIZE;
}

int number64(const struct call *call, u64 *out, const char *format, ...)
{
	VALUE_OR_RETURN(out)
	return value_number(value, out) ? SUCCESS : UNKNOWN;
}

int number(const struct call *call, u32 *out, const char *format, ...)
{
	VALUE_OR_RETURN(out)
	u64 wide;
	if (!value_number(value, &wide))
		return UNKNOWN;
	*out = (u32)wide;
	return SUCCESS;
}

u32 or_zero(const struct call *call, const char *format, ...)
{
	char name[KEY];
	u32 out = 0;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(name, sizeof name, format, arguments);
	va_end(arguments);
	return number(call, &out, "%s", name) == SUCCESS ? out : 0;
}
