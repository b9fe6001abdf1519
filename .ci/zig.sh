#!/bin/sh
# Make c++, ar and ranlib of the Zig that lies in the folder $1.
# Zig compiles all of its C++ library before it links the first program, for a minute: here only what diffdag needs of it.
set -eu
zig=$1/ziglang/zig
lib=$1/ziglang/lib
for tool in ar ranlib; do
  printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$zig" $tool > "$1/$tool"
done
for part in libcxx/src/exception libcxx/src/stdexcept libcxx/src/new_handler libcxx/src/new_helpers libcxx/src/hash \
  libcxx/src/functional libcxx/src/chrono libcxx/src/verbose_abort \
  libcxxabi/src/abort_message libcxxabi/src/cxa_aux_runtime libcxxabi/src/cxa_default_handlers \
  libcxxabi/src/cxa_demangle libcxxabi/src/cxa_exception libcxxabi/src/cxa_exception_storage \
  libcxxabi/src/cxa_guard libcxxabi/src/cxa_handlers libcxxabi/src/cxa_personality libcxxabi/src/cxa_vector \
  libcxxabi/src/cxa_virtual libcxxabi/src/fallback_malloc libcxxabi/src/private_typeinfo \
  libcxxabi/src/stdlib_exception libcxxabi/src/stdlib_new_delete libcxxabi/src/stdlib_stdexcept \
  libcxxabi/src/stdlib_typeinfo; do
  printf '#include "%s.cpp"\n' $part
done > "$1/library.cpp"
cat >> "$1/library.cpp" <<'END'
void std::__throw_system_error(int, const char*) { std::abort(); }
END
# Where this fails, as of a Zig with other files, c++ takes the whole library.
"$zig" c++ -std=c++23 -O2 -DNDEBUG -fPIC -fvisibility=hidden -fvisibility-inlines-hidden -ffunction-sections -w \
  -fno-sanitize=undefined -I"$lib" -I"$lib/libcxx/src" -I"$lib/libcxxabi/include" -I"$lib/libcxxabi/src" \
  -D_LIBCPP_BUILDING_LIBRARY -D_LIBCXXABI_BUILDING_LIBRARY -DLIBCXX_BUILDING_LIBCXXABI -DHAVE___CXA_THREAD_ATEXIT_IMPL \
  -c "$1/library.cpp" -o "$1/library.o" || rm -f "$1/library.o"
cat > "$1/c++" <<END
#!/bin/sh
zig='$zig'
library='$1/library.o'
END
cat >> "$1/c++" <<'END'
out= shared= last=
for argument; do
  case $last in -o) out=$argument ;; esac
  case $argument in
    -c|-E|-S) library= ;;
    -shared) shared=yes ;;
  esac
  last=$argument
done
# A name of the C++ library that is left in a shared one says that something of it is missing.
if [ -e "$library" ] && [ "$out" ] && "$zig" c++ -fno-sanitize=undefined "$@" "$library" -nostdlib++ -lunwind &&
  ! { [ "$shared" ] && grep -aqE '_ZNK?St' "$out"; }; then exit; fi
exec "$zig" c++ -fno-sanitize=undefined "$@"
END
chmod +x "$1/c++" "$1/ar" "$1/ranlib"
