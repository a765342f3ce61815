# The image of Roboco with a clock that FAKETIME moves. Monotonic clocks stay, as those of a host with a wrong clock do.
FROM roboco
USER root
RUN apt-get update && apt-get install --no-install-recommends --yes libfaketime \
    && ln -s /usr/lib/*/faketime/libfaketimeMT.so.1 /usr/lib/libfaketime.so
USER 10001:10001
ENV LD_PRELOAD=/usr/lib/libfaketime.so FAKETIME_DONT_FAKE_MONOTONIC=1
