/* Field values: what has an ID instead of a function. They say what the keys say that
 * functions use as well. */
#include <string.h>

#include "double.h"

static const struct {
	u32 id;
	bool wide; /* 64 bits */
	const char *key;
} known[] = {
	{3, true, "ecc.corrected.volatile"},
	{4, true, "ecc.uncorrected.volatile"},
	{5, true, "ecc.corrected.aggregate"},
	{6, true, "ecc.uncorrected.aggregate"},
	{82, false, "temperature.memory"},
	{83, true, "energy"},
	{91, false, "links"},
	{94, false, "pcie.replays"},
	{230, false, "recovery-action"},
};

static void field(const struct call *call, FieldValue *out)
{
	enum { U32 = 1, U64 = 3 };
	u64 number = 0;
	out->timestamp = (long long)now_ms() * 1000;
	out->latencyUsec = 0;
	out->nvmlReturn = NOT_SUPPORTED;
	memset(&out->value, 0, sizeof out->value);
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		if (known[i].id != out->fieldId)
			continue;
		out->nvmlReturn = (u32)number64(call, &number, "%s", known[i].key);
		out->valueType = known[i].wide ? U64 : U32;
		if (known[i].wide)
			out->value.ull = number;
		else
			out->value.ui = (u32)number;
	}
}

static int fields(const struct call *call, int count, FieldValue *values)
{
	if (!values || count < 1)
		return INVALID_ARGUMENT;
	for (int i = 0; i < count; i++)
		field(call, &values[i]);
	return SUCCESS;
}

EXPORT int nvmlDeviceGetFieldValues(Device device, int count, FieldValue *values)
	ANSWER(device, fields(c, count, values))
