/* Loaded before a program, makes it see a CPU with fewer features, as older CPUs and virtual machines have them.
 * MASK_CPUID is a list of LEAF:PART:REGISTER:BIT, as in "7:0:b:16,7:1:a:5": features that CPUID denies. Linux can make
 * CPUID fault where the CPU allows that; the fault's handler then answers. Without that the program ends with 77. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { kSetCpuid = 0x1012 }; /* ARCH_SET_CPUID of arch_prctl */

static struct { unsigned leaf, part, of, bit; } masks[64];
static int mask_count;

static void answer(int number, siginfo_t* info, void* context) {
  greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  const unsigned char* at = (const unsigned char*)registers[REG_RIP];
  (void)number, (void)info;
  if (at[0] != 0x0F || at[1] != 0xA2) { /* another fault than that of CPUID */
    signal(SIGSEGV, SIG_DFL);
    return;
  }
  const unsigned leaf = (unsigned)registers[REG_RAX], part = (unsigned)registers[REG_RCX];
  unsigned result[4];
  syscall(SYS_arch_prctl, kSetCpuid, 1UL);
  __cpuid_count(leaf, part, result[0], result[1], result[2], result[3]);
  syscall(SYS_arch_prctl, kSetCpuid, 0UL);
  for (int i = 0; i < mask_count; ++i)
    if (masks[i].leaf == leaf && masks[i].part == part) result[masks[i].of] &= ~(1u << masks[i].bit);
  registers[REG_RAX] = result[0];
  registers[REG_RBX] = result[1];
  registers[REG_RCX] = result[2];
  registers[REG_RDX] = result[3];
  registers[REG_RIP] += 2;
}

static int real_sigaction(int number, const struct sigaction* action, struct sigaction* old) {
  int (*next)(int, const struct sigaction*, struct sigaction*) = NULL;
  *(void**)&next = dlsym(RTLD_NEXT, "sigaction");
  return next(number, action, old);
}

/* The program's own handler of this signal would end it at the next CPUID. */
int sigaction(int number, const struct sigaction* action, struct sigaction* old) {
  return real_sigaction(number, number == SIGSEGV ? NULL : action, old);
}

__attribute__((constructor)) static void begin(void) {
  const char* list = getenv("MASK_CPUID");
  while (list != NULL && *list != 0 && mask_count < 64) {
    char* end = NULL;
    masks[mask_count].leaf = (unsigned)strtoul(list, &end, 0);
    masks[mask_count].part = (unsigned)strtoul(end + 1, &end, 10);
    masks[mask_count].of = (unsigned)(end[1] - 'a');
    masks[mask_count++].bit = (unsigned)strtoul(end + 3, &end, 10);
    list = *end == ',' ? end + 1 : end;
  }
  struct sigaction action = {0};
  action.sa_sigaction = answer;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  real_sigaction(SIGSEGV, &action, NULL);
  if (syscall(SYS_arch_prctl, kSetCpuid, 0UL) != 0) _exit(77);
}
